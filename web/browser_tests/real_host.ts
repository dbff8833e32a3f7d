// The built host with the agents of the demo, in a home of its own.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "@playwright/test";

export class RealHost {
  private demo?: ChildProcess;

  private constructor(
    private readonly binary: string,
    readonly home: string,
    readonly address: string,
  ) {}

  /** Starts a host with three agents that ask. */
  static async start(): Promise<RealHost> {
    const binary = process.env.COUNTERSIGN_BIN ?? "";
    if (!existsSync(binary)) throw new Error(`${binary} is missing: cargo build -p countersign`);
    const home = mkdtempSync(join(tmpdir(), "countersign-page-"));
    const host = new RealHost(binary, home, `127.0.0.1:${await freePort()}`);
    host.demo = spawn(binary, ["demo", "run", "--home", home, "--listen", host.address], { stdio: "ignore" });
    await until(() => host.inbox().length >= 3, "three asks");
    return host;
  }

  /** Runs a command of the host's own command line. */
  run(...words: string[]): string {
    return execFileSync(this.binary, words, { env: { ...process.env, COUNTERSIGN_HOME: this.home, NO_COLOR: "1" }, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  }

  /** Asks that are open. */
  inbox(): { id: string; agent_name: string }[] {
    try {
      return (JSON.parse(this.run("inbox", "--json")) as { approvals: { id: string; agent_name: string }[] }).approvals;
    } catch {
      return [];
    }
  }

  /** Follows a login link, as a person does. */
  async login(page: Page): Promise<void> {
    const link = /http\S+\/login\/\S+/.exec(this.run("open"))?.[0];
    if (!link) throw new Error("no login link");
    await page.goto(link);
    await page.getByRole("button").click();
    await page.getByText("● live").waitFor();
  }

  /** Ends the host as a power cut would. Its agents stay. */
  kill(): void {
    const status = JSON.parse(this.run("status", "--json")) as { pid: number };
    process.kill(status.pid, "SIGKILL");
  }

  /** Starts another host on the same record. */
  async restart(): Promise<void> {
    this.run("up", "--detach", "--listen", this.address);
    await until(() => this.inbox().length > 0, "a host");
  }

  async stop(): Promise<void> {
    try {
      this.run("down", "--all");
    } catch {
      // It was ended by a test.
    }
    this.demo?.kill("SIGINT");
    rmSync(this.home, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
  }
}

async function until(isSo: () => boolean, what: string): Promise<void> {
  for (let turn = 0; turn < 150; turn++) {
    if (isSo()) return;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new Error(`waited too long for ${what}`);
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => (typeof address === "object" && address ? resolve(address.port) : reject(new Error("no port"))));
    });
  });
}

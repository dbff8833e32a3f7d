// The built host in a home of its own, with the agents of the demo, with agents of a test's own script, or with none.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "@playwright/test";

export interface OpenAsk {
  id: string;
  agent_name?: string;
}

/** How many requests are under way at once while many asks are made. */
const PARALLEL = 10;
const LOG_LINES = 40;

export class RealHost {
  private demo?: ChildProcess;
  private token?: string;

  private constructor(
    private readonly binary: string,
    readonly home: string,
    readonly address: string,
  ) {}

  private static async prepare(): Promise<RealHost> {
    const binary = process.env.COUNTERSIGN_BIN ?? "";
    if (!existsSync(binary)) throw new Error(`${binary} is missing: cargo build -p countersign`);
    const home = mkdtempSync(join(tmpdir(), "countersign-page-"));
    return new RealHost(binary, home, `127.0.0.1:${await freePort()}`);
  }

  /** A host without agents. */
  static async start(config = ""): Promise<RealHost> {
    const host = await RealHost.prepare();
    if (config) writeFileSync(join(host.home, "config.toml"), config, { mode: 0o600 });
    host.up();
    return host;
  }

  /** A host with the three agents of the demo, when each of them has asked something. */
  static async startDemo(): Promise<RealHost> {
    const host = await RealHost.prepare();
    host.demo = spawn(host.binary, ["demo", "run", "--home", host.home, "--listen", host.address], { stdio: "ignore" });
    await until(() => host.inbox().length >= 3, "three asks");
    // The demo has the page of its own build; a folder with another one is served by a second host in its place.
    if (process.env.COUNTERSIGN_WEB_DIR !== undefined) host.up("--replace");
    return host;
  }

  /** Runs a command of the host's own command line. */
  run(...words: string[]): string {
    return execFileSync(this.binary, words, {
      cwd: this.home, env: { ...process.env, COUNTERSIGN_HOME: this.home, NO_COLOR: "1" }, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"],
    });
  }

  private up(...options: string[]): void {
    const folder = process.env.COUNTERSIGN_WEB_DIR;
    this.run("up", "--detach", "--listen", this.address, ...(folder === undefined ? [] : ["--web-dir", folder]), ...options);
  }

  /** Asks that are open; none while no host answers. */
  inbox(): OpenAsk[] {
    try {
      return (JSON.parse(this.run("inbox", "--json")) as { approvals: OpenAsk[] }).approvals;
    } catch {
      return [];
    }
  }

  url(path: string): string {
    return `http://${this.address}${path}`;
  }

  /** Calls the REST API as an operator. */
  api<Reply>(method: string, path: string, body?: object): Promise<Reply> {
    return this.request(method, path, body && JSON.stringify(body));
  }

  private async request<Reply>(method: string, path: string, body?: string): Promise<Reply> {
    this.token ??= this.run("token", "create", "--role", "operator").trim();
    const reply = await fetch(this.url(`/api/v1${path}`), {
      method, headers: { authorization: `Bearer ${this.token}`, "content-type": "application/json" }, body,
    });
    if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status} ${await reply.text()}`);
    return (await reply.json()) as Reply;
  }

  /** Asks to run a command, as a script would. */
  ask(command: string, changes: object = {}): Promise<OpenAsk> {
    return this.api("POST", "/approvals", { action: `Run ${command.slice(0, 50)}`, tool: "Bash", input: { command }, cwd: this.home, ...changes });
  }

  /** Asks with a body that no JSON library would write. */
  askRaw(body: string): Promise<OpenAsk> {
    return this.request("POST", "/approvals", body);
  }

  async askMany(commands: string[]): Promise<void> {
    const waiting = [...commands];
    const work = async () => {
      for (let command = waiting.shift(); command !== undefined; command = waiting.shift()) await this.ask(command);
    };
    await Promise.all(Array.from({ length: PARALLEL }, work));
  }

  /** Starts an agent that follows a script of its own, and returns its id. */
  async spawnScript(name: string, steps: object[], ...options: string[]): Promise<string> {
    const folder = join(this.home, "work");
    mkdirSync(folder, { recursive: true });
    const file = join(this.home, `${name}.json`);
    writeFileSync(file, JSON.stringify({ can_load: true, quiet: true, steps }));
    const command = `${this.binary} demo agent --script ${file}`;
    // A sandbox would hide its script, which lies with the host's own files.
    this.run("spawn", "--name", name, "--cwd", folder, "--sandbox", "open", "--command", command, ...options, "begin");
    const agents = await this.api<{ id: string; name: string }[]>("GET", "/agents");
    return agents.find((agent) => agent.name === name)?.id ?? "";
  }

  async agentId(name: string): Promise<string> {
    const agents = await this.api<{ id: string; name: string }[]>("GET", "/agents");
    return agents.find((agent) => agent.name === name)?.id ?? "";
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
  restart(): void {
    this.up();
  }

  logEnd(): string {
    const file = join(this.home, "host.log");
    return existsSync(file) ? readFileSync(file, "utf8").split("\n").slice(-LOG_LINES).join("\n") : "";
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

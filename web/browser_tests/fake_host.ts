// A host inside the test: it speaks the wire to one page, so that a test decides what comes when.

import { type Page, type WebSocketRoute } from "@playwright/test";
import type { Agent, Approval, AskView, HostEvent, HostStatus, Question, Snapshot } from "../src/wire_types.ts";

export interface SentCall {
  method: string;
  params: Record<string, unknown>;
}

type Reply = { result: unknown } | { error: { code: number; message: string; data?: object } } | "silence";
type Handler = (params: Record<string, unknown>) => Reply;

export class FakeHost {
  readonly calls: SentCall[] = [];
  readonly handlers = new Map<string, Handler>();
  /** The page has a second connection for the agent that it shows. */
  private readonly sockets = new Set<WebSocketRoute>();
  private sequence = 1_000;
  private isUp = true;
  snapshot: Snapshot = { agents: [], approvals: [], event_sequence: 1_000, events: [], questions: [] };
  status: HostStatus = {
    agents: 0, database: "", decide_confirm: "always", event_sequence: 1_000, pending_approvals: 0, pending_questions: 0,
    started_at: new Date().toISOString(), version: "0.1.0", you: { name: "root", role: "operator" },
  };

  static async attach(page: Page): Promise<FakeHost> {
    const host = new FakeHost();
    await page.routeWebSocket("**/rpc", (socket) => host.accept(socket));
    return host;
  }

  private accept(socket: WebSocketRoute): void {
    if (!this.isUp) {
      void socket.close({ code: 1001 });
      return;
    }
    this.sockets.add(socket);
    socket.onClose(() => this.sockets.delete(socket));
    socket.onMessage((message) => this.receive(socket, String(message)));
  }

  private receive(socket: WebSocketRoute, text: string): void {
    const { id, method, params } = JSON.parse(text) as { id: number; method: string; params: Record<string, unknown> };
    this.calls.push({ method, params });
    const reply = this.handlers.get(method)?.(params) ?? this.usualReply(method, params);
    if (reply !== "silence") socket.send(JSON.stringify({ jsonrpc: "2.0", id, ...reply }));
  }

  private usualReply(method: string, params: Record<string, unknown>): Reply {
    const asked = this.snapshot.approvals.find((row) => row.id === params.approval_id);
    switch (method) {
      case "host.subscribe":
        return { result: { ...this.snapshot, event_sequence: this.sequence } };
      case "host.status":
        return { result: this.status };
      case "host.approval":
        return asked ? { result: asked } : unknown("unknown_approval");
      case "host.resolve_approval":
        return asked ? { result: this.resolve(asked, String(params.resolution)) } : unknown("unknown_approval");
      case "host.presence":
        return { result: { ok: true } };
      default:
        return { error: { code: -32601, message: `unknown method '${method}'` } };
    }
  }

  /** Ends an ask as the host does: the row of the reply, and the event. */
  resolve(row: Approval, resolution: string, by = "root"): Approval {
    const allowed = resolution === "approve";
    const ended: Approval = {
      ...row, state: allowed ? "allowed" : "denied", resolution, resolved_at: new Date().toISOString(), resolved_by: { name: by, role: "operator" },
    };
    this.snapshot.approvals = this.snapshot.approvals.map((other) => (other.id === row.id ? ended : other));
    this.send("approval.resolved", ended);
    return ended;
  }

  open(row: Approval): void {
    this.snapshot.approvals = [...this.snapshot.approvals, row];
    this.send("approval.requested", row);
  }

  send(kind: string, payload: unknown, about: Partial<HostEvent> = {}): void {
    const event: HostEvent = {
      id: `event-${++this.sequence}`, kind, message: kind, payload, sequence: this.sequence, timestamp: new Date().toISOString(), ...about,
    };
    for (const socket of this.sockets) socket.send(JSON.stringify({ jsonrpc: "2.0", method: "host.event", params: event }));
  }

  /** The host ends without a word. */
  async kill(): Promise<void> {
    this.isUp = false;
    await Promise.all([...this.sockets].map((socket) => socket.close({ code: 1001 })));
    this.sockets.clear();
  }

  restart(): void {
    this.isUp = true;
  }

  callsOf(method: string): Record<string, unknown>[] {
    return this.calls.filter((call) => call.method === method).map((call) => call.params);
  }
}

function unknown(reason: string): Reply {
  return { error: { code: -32003, message: reason, data: { reason } } };
}

let nextAsk = 1;

export function makeView(view: Partial<AskView>): AskView {
  return { summary: "", edits: [], warnings: [], editable: true, ...view };
}

/** An ask of an agent to run a command. */
export function makeAsk(command: string, changes: Partial<Approval> = {}): Approval {
  const number = nextAsk++;
  return {
    action: command, agent_id: "agent-1", agent_name: "builder", approving: ["approve"], created_at: new Date().toISOString(), cwd: "/srv/app",
    id: `approval-${String(number).padStart(8, "0")}`, input: { command }, input_digest: `digest-${command}`, options: ["approve", "deny"],
    sequence: number, state: "pending", tool: "Bash",
    verdict: { effect: "ask", parts: [{ effect: "ask", kind: "command", subject: command }] },
    view: makeView({ summary: `Bash: ${command}`, command, input_text: JSON.stringify({ command }, null, 2) }),
    ...changes,
  };
}

export function makeQuestion(question: string, changes: Partial<Question> = {}): Question {
  const number = nextAsk++;
  return {
    agent_id: "agent-1", agent_name: "boss", asked_by: { agent_id: "agent-1", name: "boss", role: "agent" }, created_at: new Date().toISOString(),
    for_people: true, id: `question-${String(number).padStart(8, "0")}`, question, sequence: number, state: "pending", ...changes,
  };
}

export function makeAgent(id: string, name: string): Agent {
  return { id, kind: "acp", name, state: "running", updated_at: new Date().toISOString() };
}

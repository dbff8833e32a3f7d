// The socket to the host: calls with typed results, events, and a connection that comes back by itself.
//
// Invariants: a call is sent once and never again by itself; if the connection is lost before its reply, it fails as
// `lost`, which means that nobody knows whether the host took it. Each new connection begins with a new snapshot.

import type { AskViewer, ErrorData, HostEvent, MethodName, Params, Result, Snapshot } from "./wire_types.ts";

const RETRY_MIN_MS = 50;
/** A host that restarts is back within a second of being there; one that stays away is asked for less often. */
const RETRY_MAX_MS = 700;
const LONG_RETRY_MS = 5_000;
const LONG_LOSS_MS = 60_000;
/** A socket that was out of sight for longer may be dead although it says that it is open. */
const HIDDEN_MAX_MS = 30_000;
const PING_EVERY_MS = 15_000;
/** A connection that takes longer is thrown away, and another is tried. */
const CONNECT_MAX_MS = 5_000;
const REPLY_MAX_MS = 30_000;
const PING_REPLY_MAX_MS = 5_000;
const AUTH_REQUIRED = -32001;

export type LinkState = "connecting" | "live" | "lost" | "unauthorized";

/** A call that the host refused, or whose reply never came. */
export class CallError extends Error {
  readonly kind: "refused" | "lost" | "not_sent";
  readonly code: number;
  readonly data: ErrorData;

  constructor(kind: CallError["kind"], message: string, code = 0, data: ErrorData = {}) {
    super(message);
    this.kind = kind;
    this.code = code;
    this.data = data;
  }

  get reason(): string | undefined {
    return this.data.reason;
  }
}

export interface LinkHandlers {
  onState(state: LinkState): void;
  onSnapshot(snapshot: Snapshot): void;
  onEvent(event: HostEvent): void;
  /** What is open on other screens, all of it each time. */
  onViewers?(viewers: AskViewer[]): void;
  /** Called while the link is live, to find out whether it still is. */
  onPing?(link: HostLink): Promise<unknown>;
}

export interface SubscribeOptions {
  brief?: boolean;
  also?: string[];
  agent_id?: string;
}

interface PendingCall {
  resolve(result: unknown): void;
  reject(error: CallError): void;
  timer: ReturnType<typeof setTimeout>;
}

interface Frame {
  id?: number;
  method?: string;
  params?: unknown;
  result?: unknown;
  error?: { code: number; message: string; data?: ErrorData };
}

export class HostLink {
  private socket?: WebSocket;
  private pending = new Map<number, PendingCall>();
  private nextId = 1;
  private retryMs = RETRY_MIN_MS;
  private lostAt = Date.now();
  private retryTimer?: ReturnType<typeof setTimeout>;
  private pingTimer?: ReturnType<typeof setInterval>;
  private hiddenAt?: number;
  private openedAt = 0;
  private closed = false;
  private state: LinkState = "connecting";

  constructor(
    private readonly handlers: LinkHandlers,
    private readonly options: SubscribeOptions = { brief: true },
  ) {
    document.addEventListener("visibilitychange", this.checkVisibility);
    addEventListener("pageshow", this.checkVisibility);
    addEventListener("online", this.reconnectNow);
    this.connect();
  }

  /** Ends the link for good. */
  close(): void {
    this.closed = true;
    document.removeEventListener("visibilitychange", this.checkVisibility);
    removeEventListener("pageshow", this.checkVisibility);
    removeEventListener("online", this.reconnectNow);
    clearTimeout(this.retryTimer);
    this.drop();
  }

  /** Sends a request once. Fails with `not_sent` if there is no connection to send it on. */
  call<M extends MethodName>(method: M, params: Params<M>, replyMaxMs = REPLY_MAX_MS): Promise<Result<M>> {
    const socket = this.socket;
    if (!socket || socket.readyState !== WebSocket.OPEN) {
      return Promise.reject(new CallError("not_sent", "not connected: nothing was sent"));
    }
    const id = this.nextId++;
    return new Promise<Result<M>>((resolve, reject) => {
      const timer = setTimeout(() => {
        this.pending.delete(id);
        reject(new CallError("lost", "the host did not reply in time"));
      }, replyMaxMs);
      this.pending.set(id, { resolve: resolve as (result: unknown) => void, reject, timer });
      socket.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    });
  }

  /** Tries again at once, as when the network or the page comes back. */
  readonly reconnectNow = (): void => {
    const isUnderWay = this.socket !== undefined && Date.now() - this.openedAt < CONNECT_MAX_MS;
    if (this.closed || this.state === "live" || isUnderWay) return;
    this.retryMs = RETRY_MIN_MS;
    clearTimeout(this.retryTimer);
    this.drop();
    this.connect();
  };

  private readonly checkVisibility = (): void => {
    if (document.visibilityState === "hidden") {
      this.hiddenAt = Date.now();
      return;
    }
    const hiddenMs = this.hiddenAt === undefined ? 0 : Date.now() - this.hiddenAt;
    this.hiddenAt = undefined;
    if (hiddenMs > HIDDEN_MAX_MS) this.lose();
    this.reconnectNow();
  };

  private connect(): void {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/rpc`);
    this.socket = socket;
    this.openedAt = Date.now();
    this.retryTimer = setTimeout(() => {
      if (socket === this.socket && this.state !== "live") this.lose();
    }, CONNECT_MAX_MS);
    socket.onopen = () => void this.subscribe(socket);
    socket.onmessage = (message) => {
      if (socket === this.socket) this.receive(String(message.data));
    };
    socket.onclose = () => {
      if (socket === this.socket) this.lose();
    };
  }

  private async subscribe(socket: WebSocket): Promise<void> {
    try {
      const snapshot = await this.call("host.subscribe", this.options);
      if (socket !== this.socket) return;
      this.retryMs = RETRY_MIN_MS;
      clearTimeout(this.retryTimer);
      this.handlers.onSnapshot(snapshot);
      this.setState("live");
      this.pingTimer = setInterval(() => void this.ping(socket), PING_EVERY_MS);
      void this.ping(socket);
    } catch (error) {
      if (socket !== this.socket) return;
      const unauthorized = error instanceof CallError && error.code === AUTH_REQUIRED;
      this.lose(unauthorized ? "unauthorized" : "lost");
    }
  }

  private async ping(socket: WebSocket): Promise<void> {
    if (document.visibilityState === "hidden") return;
    try {
      await (this.handlers.onPing?.(this) ?? this.call("host.status", {}, PING_REPLY_MAX_MS));
    } catch (error) {
      const silent = error instanceof CallError && error.kind === "lost";
      if (silent && socket === this.socket) this.lose();
    }
  }

  private receive(text: string): void {
    const frame = JSON.parse(text) as Frame;
    if (frame.method === "host.event" && frame.params) {
      this.handlers.onEvent(frame.params as HostEvent);
      return;
    }
    if (frame.method === "host.viewers" && frame.params) {
      this.handlers.onViewers?.((frame.params as { viewers: AskViewer[] }).viewers);
      return;
    }
    const call = frame.id === undefined ? undefined : this.pending.get(frame.id);
    if (!call || frame.id === undefined) return;
    this.pending.delete(frame.id);
    clearTimeout(call.timer);
    if (frame.error) {
      call.reject(new CallError("refused", frame.error.message, frame.error.code, frame.error.data ?? {}));
    } else {
      call.resolve(frame.result);
    }
  }

  /** Throws the socket away and tries again later. */
  private lose(state: LinkState = "lost"): void {
    this.drop();
    if (this.closed) return;
    if (this.state === "live") this.lostAt = Date.now();
    this.setState(state);
    clearTimeout(this.retryTimer);
    this.retryTimer = setTimeout(() => this.connect(), this.retryMs);
    const isLong = state === "unauthorized" || Date.now() - this.lostAt > LONG_LOSS_MS;
    this.retryMs = Math.min(this.retryMs * 2, isLong ? LONG_RETRY_MS : RETRY_MAX_MS);
  }

  private drop(): void {
    const socket = this.socket;
    this.socket = undefined;
    clearInterval(this.pingTimer);
    socket?.close();
    const calls = [...this.pending.values()];
    this.pending.clear();
    for (const call of calls) {
      clearTimeout(call.timer);
      call.reject(new CallError("lost", "the connection was lost before the host replied"));
    }
  }

  private setState(state: LinkState): void {
    this.state = state;
    this.handlers.onState(state);
  }
}

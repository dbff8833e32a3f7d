// The transcript of one agent: its end first, older pages on request, what is new as it comes.
//
// It has a connection of its own for events, because only the agent that is looked at sends its transcript. Pages are
// fetched on the connection that is open already, and the other one is opened after the end is there: until then it
// would only keep host and browser from what a person waits for.

import { signal } from "@preact/signals";
import { describeCallError } from "./call_errors.ts";
import { call, isLive } from "./store.ts";
import { foldParts, type TranscriptFold, type TranscriptPart } from "./transcript.ts";
import { HostLink } from "./wire.ts";
import type { HostEvent, TranscriptPage } from "./wire_types.ts";

/** A part has one entry of an agent that is slow and hundreds of one that is quick: the first page is a guess. */
const END_PARTS = 4;
/** What a page should bring: some screens, and little to wait for. Pages that bring less grow, others shrink. */
const PAGE_ITEMS = 200;
const PAGE_CHARS = 100_000;
const PAGE_PARTS_MAX = 200;
/** Whoever is further behind than one request can bring begins again at the end. */
const CATCH_UP_PARTS = 1_000;
/** News are fetched at most this often, however fast the agent writes. */
const FETCH_EVERY_MS = 100;
/** While the end is followed, older parts beyond this are let go; they can be loaded again. */
const FOLLOWED_PARTS_MAX = 4_000;

export class TranscriptFeed {
  /** Changes with the items. */
  readonly version = signal(0);
  readonly loaded = signal(false);
  readonly error = signal<string | undefined>(undefined);
  readonly loadingOlder = signal(false);
  private parts: TranscriptPart[] = [];
  private folded: TranscriptFold = foldParts([]);
  private first: number | undefined;
  private next = 0;
  private pageParts = END_PARTS;
  private fetching = false;
  private wanted = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private link: HostLink | undefined;
  private closed = false;

  constructor(private readonly agentId: string) {}

  /** Listens to what is added; what came since the end was fetched is fetched when the connection stands. */
  private openLink(): void {
    if (this.closed) return;
    this.link ??= new HostLink(
      { onState: () => undefined, onSnapshot: () => void this.refresh(), onEvent: (event) => this.takeEvent(event) },
      { brief: true, also: ["transcript.added"], agent_id: this.agentId },
    );
  }

  get items() {
    return this.folded.items;
  }

  get hasOlder(): boolean {
    return this.first !== undefined;
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
    this.link?.close();
  }

  /** Fetches what is new, or the end if nothing was fetched yet. */
  async refresh(): Promise<void> {
    if (isLive.peek()) await this.fetchNews();
  }

  /** Lets go of what is far above while the end is followed. */
  trim(): void {
    if (this.parts.length <= FOLLOWED_PARTS_MAX) return;
    this.parts = this.parts.slice(-FOLLOWED_PARTS_MAX / 2);
    this.first = this.parts[0]?.sequence;
    this.refold();
  }

  async loadOlder(): Promise<void> {
    if (this.first === undefined || this.loadingOlder.value) return;
    this.loadingOlder.value = true;
    try {
      const page = await call("host.transcript", { agent_id: this.agentId, before: this.first, limit: this.pageParts });
      this.fitPage(page.parts);
      this.parts = [...page.parts, ...this.parts];
      this.first = page.first;
      this.folded.prepend(page.parts);
      this.version.value++;
      this.error.value = undefined;
    } catch (error) {
      this.error.value = describeCallError(error);
    } finally {
      this.loadingOlder.value = false;
    }
  }

  private takeEvent(event: HostEvent): void {
    if (event.kind !== "transcript.added" || event.agent_id !== this.agentId) return;
    this.wanted = true;
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      if (this.wanted) void this.fetchNews();
    }, FETCH_EVERY_MS);
  }

  private async fetchNews(): Promise<void> {
    if (this.fetching) {
      this.wanted = true;
      return;
    }
    this.fetching = true;
    this.wanted = false;
    try {
      if (this.loaded.value) await this.fetchAfter();
      else await this.fetchEnd();
      this.error.value = undefined;
    } catch (error) {
      this.error.value = describeCallError(error);
    } finally {
      this.fetching = false;
    }
    if (this.wanted) this.timer ??= setTimeout(() => {
      this.timer = undefined;
      void this.fetchNews();
    }, FETCH_EVERY_MS);
  }

  private async fetchAfter(): Promise<void> {
    const page = await call("host.transcript", { agent_id: this.agentId, after: this.next, limit: CATCH_UP_PARTS });
    if (page.more) return this.fetchEnd();
    this.next = page.next;
    if (page.parts.length === 0) return;
    this.parts.push(...page.parts);
    for (const part of page.parts) this.folded.add(part);
    this.version.value++;
  }

  private async fetchEnd(): Promise<void> {
    const page: TranscriptPage = await call("host.transcript", { agent_id: this.agentId, from_end: true, limit: this.pageParts });
    this.fitPage(page.parts);
    this.parts = page.parts;
    this.first = page.first;
    this.next = page.next;
    this.refold();
    this.loaded.value = true;
    // After the paint that shows it.
    requestAnimationFrame(() => setTimeout(() => this.openLink()));
  }

  private fitPage(parts: readonly TranscriptPart[]): void {
    this.pageParts = nextPageParts(this.pageParts, parts);
  }

  private refold(): void {
    this.folded = foldParts(this.parts);
    this.version.value++;
  }
}

/** How many parts to ask for next, by what the last page brought. */
export function nextPageParts(asked: number, parts: readonly TranscriptPart[]): number {
  const entries = parts.flatMap((part) => part.entries);
  const chars = entries.reduce((sum, entry) => sum + ("text" in entry ? entry.text?.length ?? 0 : 0), 0);
  const share = Math.max(entries.length / PAGE_ITEMS, chars / PAGE_CHARS);
  if (share > 1) return Math.max(1, Math.floor(asked / share));
  return Math.min(PAGE_PARTS_MAX, share < 0.5 ? asked * 4 : asked);
}

// Events page by page in both directions, and as they come.

import { signal } from "@preact/signals";
import { describeCallError } from "./call_errors.ts";
import { call, onHostEvent } from "./store.ts";
import { belongs, kindsOf, mergeEvents, type TimelineFilter } from "./timeline.ts";
import type { HostEvent } from "./wire_types.ts";

const PAGE_EVENTS = 100;

export class TimelineFeed {
  readonly events = signal<readonly HostEvent[]>([]);
  readonly loaded = signal(false);
  readonly error = signal<string | undefined>(undefined);
  private loading = false;
  private hasOlder = true;
  /** Whether what is newest is in the list, so that live events continue it. */
  private hasNewest = false;
  private readonly stop: () => void;

  /** Begins at the end, or around one event. */
  constructor(private readonly filter: TimelineFilter, private readonly around: number | undefined) {
    this.stop = onHostEvent((event) => {
      if (this.hasNewest && belongs(event, filter)) this.events.value = mergeEvents(this.events.value, [event]);
    });
  }

  close(): void {
    this.stop();
  }

  async begin(): Promise<void> {
    const isAround = this.around !== undefined && !this.loaded.value;
    await this.fetch(isAround ? { before: (this.around ?? 0) + PAGE_EVENTS / 2 } : {}, (rows) => {
      this.hasNewest = !isAround;
      // A page from the end replaces what is known: there may be a gap between them.
      this.events.value = mergeEvents([], rows);
      this.hasOlder = rows.length === PAGE_EVENTS;
      this.loaded.value = true;
    });
  }

  async loadOlder(): Promise<void> {
    const first = this.events.value[0];
    if (!first || !this.hasOlder) return;
    await this.fetch({ before: first.sequence }, (rows) => {
      this.hasOlder = rows.length === PAGE_EVENTS;
      this.events.value = mergeEvents(this.events.value, rows);
    });
  }

  async loadNewer(): Promise<void> {
    const last = this.events.value.at(-1);
    if (!last || this.hasNewest) return;
    await this.fetch({ after: last.sequence }, (rows) => {
      this.hasNewest = rows.length < PAGE_EVENTS;
      this.events.value = mergeEvents(this.events.value, rows);
    });
  }

  private async fetch(place: { before?: number; after?: number }, take: (rows: HostEvent[]) => void): Promise<void> {
    if (this.loading) return;
    this.loading = true;
    const { agentId } = this.filter;
    const kinds = kindsOf(this.filter.group);
    try {
      take(await call("host.events", {
        ...place, limit: PAGE_EVENTS, ...(kinds && { kinds }), ...(agentId && { agent_id: agentId }),
      }));
      this.error.value = undefined;
    } catch (error) {
      this.error.value = describeCallError(error);
    } finally {
      this.loading = false;
    }
  }
}

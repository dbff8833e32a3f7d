// The timeline: everything that happened, in the order of the record, live at its end.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { RouteLink } from "../app.tsx";
import { EndList, type EndListControl } from "../parts/end_list.tsx";
import { useCommands } from "../keys.ts";
import { navigate } from "../route.ts";
import { hostState, isLive } from "../store.ts";
import { eventText, itemOf, kindGroups, matchesText, showsPayload, type TimelineFilter, whoOf } from "../timeline.ts";
import { TimelineFeed } from "../timeline_feed.ts";
import { block, line } from "../visible.ts";
import type { HostEvent } from "../wire_types.ts";

const ROW_PIXELS = 40;

export function TimelineScreen({ sequence }: { sequence: number | undefined }) {
  const [filter, setFilter] = useState<TimelineFilter>({ text: "" });
  const feed = useTimeline(filter, sequence);
  const control = useRef<EndListControl | undefined>(undefined);
  const [atEnd, setAtEnd] = useState(true);
  const [opened, setOpened] = useState<number | undefined>(sequence);
  const events = feed.events.value.filter((event) => matchesText(event, filter.text));
  const known = events.findIndex((event) => event.sequence === sequence);
  useEffect(() => {
    if (known >= 0) control.current?.scrollToIndex(Math.max(0, known - 3));
  }, [feed, known >= 0, sequence]);
  useEffect(() => {
    if (atEnd && feed.loaded.value) void feed.loadNewer();
  }, [atEnd, feed.events.value.length]);
  useCommands({ search: { run: () => document.getElementById("timeline-search")?.focus() } });
  return (
    <div class="screen-column">
      <header class="screen-head">
        <h1>Timeline</h1>
        <FilterFields filter={filter} onChange={setFilter} />
      </header>
      {feed.error.value && <p class="notice bad diff-problem" role="alert">{feed.error.value}</p>}
      {feed.loaded.value && sequence !== undefined && known < 0 && <p class="notice warn diff-problem">Event {sequence} is not in the record any more, or is not one that is listed here.</p>}
      <div class="transcript-main timeline-main">
        {events.length === 0 ? <p class="empty muted">{feed.loaded.value ? "Nothing here." : feed.error.value ? "" : "Loading…"}</p> : (
          <EndList
            count={events.length} estimate={() => ROW_PIXELS} label="Events" control={control} onEnd={setAtEnd} onNearStart={() => void feed.loadOlder()}
            keyOf={(index) => String(events[index]?.sequence)}
            render={(index) => <EventRow event={events[index]} before={events[index - 1]} marked={events[index]?.sequence === sequence} opened={events[index]?.sequence === opened} onOpen={setOpened} />}
          />
        )}
        {!atEnd && <button class="new-chip" onClick={() => (sequence === undefined ? control.current?.scrollToEnd() : navigate({ screen: "timeline" }))}>To the end ↓</button>}
      </div>
    </div>
  );
}

function useTimeline(filter: TimelineFilter, sequence: number | undefined): TimelineFeed {
  const feed = useMemo(() => new TimelineFeed(filter, sequence), [filter.group, filter.agentId, sequence]);
  const live = isLive.value;
  useEffect(() => {
    if (live) void feed.begin();
  }, [feed, live]);
  useEffect(() => () => feed.close(), [feed]);
  return feed;
}

function FilterFields({ filter, onChange }: { filter: TimelineFilter; onChange(filter: TimelineFilter): void }) {
  const agents = [...hostState.value.agents.values()].sort((a, b) => a.name.localeCompare(b.name));
  return (
    <div class="timeline-filter">
      <select aria-label="Kind" value={filter.group ?? ""} onChange={(event) => onChange({ ...filter, group: (event.currentTarget.value || undefined) as TimelineFilter["group"] })}>
        <option value="">All kinds</option>
        {Object.entries(kindGroups).map(([name, { word }]) => <option key={name} value={name}>{word}</option>)}
        <option value="everything">Everything, internal too</option>
      </select>
      <select aria-label="Agent" value={filter.agentId ?? ""} onChange={(event) => onChange({ ...filter, agentId: event.currentTarget.value || undefined })}>
        <option value="">All agents</option>
        {agents.map((agent) => <option key={agent.id} value={agent.id}>{line(agent.name)}</option>)}
      </select>
      <input id="timeline-search" type="search" placeholder="Words or who" aria-label="Only events with these words or by this person" value={filter.text} onInput={(event) => onChange({ ...filter, text: event.currentTarget.value })} />
    </div>
  );
}

interface EventRowProps {
  event: HostEvent | undefined;
  before: HostEvent | undefined;
  marked: boolean;
  opened: boolean;
  onOpen(sequence: number | undefined): void;
}

function EventRow({ event, before, marked, opened, onOpen }: EventRowProps) {
  if (!event) return null;
  const day = dayOf(event);
  const who = whoOf(event);
  return (
    <>
      {day !== (before && dayOf(before)) && <h2 class="list-heading">{day}</h2>}
      <div class={`event-row ${marked ? "marked" : ""}`}>
        <button class="plain event-line" aria-expanded={opened} onClick={() => onOpen(opened ? undefined : event.sequence)}>
          <time class="muted small" dateTime={event.timestamp}>{timeOf(event)}</time>
          <span class="event-kind muted small ellipsis">{line(event.kind)}</span>
          <span class="grow event-message">{eventText(event)}</span>
          {who && <span class="event-who muted small nowrap">{who}</span>}
        </button>
        {opened && <EventDetail event={event} />}
      </div>
    </>
  );
}

function EventDetail({ event }: { event: HostEvent }) {
  const item = itemOf(event);
  return (
    <div class="event-detail small">
      <p class="row wrap">
        <span>event <RouteLink route={{ screen: "timeline", sequence: event.sequence }}>{event.sequence}</RouteLink></span>
        <span class="muted">{new Date(event.timestamp).toLocaleString()}</span>
        {event.agent_id && <RouteLink route={{ screen: "agent", agentId: event.agent_id, tab: "transcript" }}>{line(event.agent_name ?? event.agent_id)}</RouteLink>}
        {item && <RouteLink route={{ screen: "inbox", askId: item }}>Open it</RouteLink>}
      </p>
      {showsPayload(event) && <pre class="code-box">{block(JSON.stringify(event.payload, null, 2))}</pre>}
    </div>
  );
}

function dayOf(event: HostEvent): string {
  return new Date(event.timestamp).toLocaleDateString(undefined, { weekday: "long", day: "numeric", month: "long" });
}

function timeOf(event: HostEvent): string {
  return new Date(event.timestamp).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

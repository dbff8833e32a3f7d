// The frame around every screen: navigation, the line about the host, notices, palette and help.

import { useEffect } from "preact/hooks";
import { openCount } from "./inbox_items.ts";
import { openNext, openNextInProject } from "./next_item.ts";
import { type CommandHandler, keyNotice, useCommands } from "./keys.ts";
import { Help, helpOpen } from "./parts/help.tsx";
import { Icon } from "./parts/icon.tsx";
import { announceLoss, LiveRegions } from "./parts/live_region.tsx";
import { Palette, paletteOpen } from "./parts/palette.tsx";
import { TopLine } from "./parts/top_line.tsx";
import { Toasts } from "./parts/toasts.tsx";
import { currentRoute, formatRoute, navigate, type Route } from "./route.ts";
import { type ScreenRow, screens } from "./screens.tsx";
import { hasSnapshot, hostState, lossShown } from "./store.ts";

export function App() {
  useCommands(globalCommands());
  useEffect(() => announceLoss(lossShown.value ? "The host cannot be reached. Open asks are kept." : ""), [lossShown.value]);
  useEffect(clearKeyNotice, [keyNotice.value]);
  useEffect(followNextLink, [hasSnapshot.value]);
  const route = currentRoute.value;
  const screen = screens.find((row) => row.routes.includes(route.screen));
  return (
    <div class={`app ${route.screen === "inbox" && route.askId ? "has-ask" : ""}`}>
      <a class="skip-link" href="#main">Skip to content</a>
      <TopLine />
      <Navigation active={screen} />
      <main id="main" tabIndex={-1}>{screen ? screen.draw(route) : <UnknownScreen />}</main>
      {keyNotice.value && <p class="key-notice fade-in" role="status">{keyNotice.value}</p>}
      <Toasts />
      <LiveRegions />
      <Palette />
      <Help />
    </div>
  );
}

const KEY_NOTICE_MS = 4_000;

function clearKeyNotice(): (() => void) | undefined {
  if (keyNotice.value === undefined) return undefined;
  const timer = setTimeout(() => (keyNotice.value = undefined), KEY_NOTICE_MS);
  return () => clearTimeout(timer);
}

function whyNoNext(): string | undefined {
  return openCount.value === 0 ? "inbox empty" : undefined;
}

/** The shortcut of the installed page leads to the next item, once it is known. */
function followNextLink(): void {
  if (hasSnapshot.value && location.search === "?next") openNext();
}

function globalCommands(): Record<string, CommandHandler> {
  const commands: Record<string, CommandHandler> = {
    palette: { run: () => (paletteOpen.value = true) },
    help: { run: () => (helpOpen.value = true) },
    next: { run: () => openNext(), whyNot: whyNoNext },
    "next.project": { run: openNextInProject, whyNot: whyNoNext },
  };
  for (const row of screens) commands[row.command] = { run: () => navigate(row.home) };
  return commands;
}

function Navigation({ active }: { active: ScreenRow | undefined }) {
  return (
    <nav class="navigation" aria-label="Screens">
      <ul>
        {screens.map((row) => (
          <li key={row.word}>
            <RouteLink route={row.home} current={row === active}>
              <Icon name={row.icon} />
              <span>{row.word}</span>
              <NavigationCount row={row} />
            </RouteLink>
          </li>
        ))}
      </ul>
      <div class="navigation-foot">
        <button class="plain" onClick={() => (paletteOpen.value = true)}><kbd>Ctrl K</kbd> commands</button>
        <button class="plain" onClick={() => (helpOpen.value = true)}><kbd>?</kbd> keys</button>
      </div>
    </nav>
  );
}

function NavigationCount({ row }: { row: ScreenRow }) {
  if (row.word === "Inbox" && openCount.value > 0) return <span class="badge">{openCount}</span>;
  if (row.word === "Agents") return <span class="muted small">{hostState.value.agents.size}</span>;
  return null;
}

interface RouteLinkProps {
  route: Route;
  current?: boolean;
  class?: string;
  children: preact.ComponentChildren;
}

/** A link inside the page. With a modifier it opens as any link does. */
export function RouteLink({ route, current, class: className, children }: RouteLinkProps) {
  const follow = (event: MouseEvent) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    navigate(route);
  };
  return <a class={className} href={formatRoute(route)} aria-current={current ? "page" : undefined} onClick={follow}>{children}</a>;
}

function UnknownScreen() {
  return (
    <section class="empty">
      <h1>Nothing is here</h1>
      <p class="muted">There is no page at this address. <RouteLink route={{ screen: "inbox" }}>Back to the inbox</RouteLink></p>
    </section>
  );
}

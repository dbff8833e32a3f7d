// Swipes on a touch screen: to the right goes back, to the left goes on. No swipe ever decides.

import { useEffect } from "preact/hooks";
import type { RefObject } from "preact";

const DISTANCE_PIXELS = 80;
/** A swipe that is mostly downwards is scrolling. */
const SLOPE_MAX = 0.5;

export type SwipeDirection = "left" | "right";

/** Which way a finger went, if it was a swipe. */
export function swipeOf(from: { x: number; y: number }, to: { x: number; y: number }): SwipeDirection | undefined {
  const [across, down] = [to.x - from.x, to.y - from.y];
  if (Math.abs(across) < DISTANCE_PIXELS || Math.abs(down) > Math.abs(across) * SLOPE_MAX) return undefined;
  return across > 0 ? "right" : "left";
}

export function useSwipe(element: RefObject<HTMLElement | null>, onSwipe: (direction: SwipeDirection) => void): void {
  useEffect(() => {
    const target = element.current;
    if (!target) return undefined;
    let from: { x: number; y: number } | undefined;
    const begin = (event: TouchEvent) => {
      const touch = event.touches.length === 1 ? event.touches[0] : undefined;
      from = touch && { x: touch.clientX, y: touch.clientY };
    };
    const end = (event: TouchEvent) => {
      const touch = event.changedTouches[0];
      // Selecting text is not a swipe.
      const direction = from && touch && getSelection()?.isCollapsed ? swipeOf(from, { x: touch.clientX, y: touch.clientY }) : undefined;
      if (direction) onSwipe(direction);
    };
    target.addEventListener("touchstart", begin, { passive: true });
    target.addEventListener("touchend", end, { passive: true });
    return () => {
      target.removeEventListener("touchstart", begin);
      target.removeEventListener("touchend", end);
    };
  }, []);
}

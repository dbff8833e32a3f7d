// Where an item is open: in the inbox, or above the composer of its agent. What follows an answer differs.

import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { openNext } from "../next_item.ts";
import { navigate } from "../route.ts";

export interface ItemPlace {
  /** After an answer was taken; `next` is the item that waits after it. */
  onAnswered(next: string | undefined): void;
  onBack(): void;
  onNext(): void;
}

const inboxPlace: ItemPlace = {
  onAnswered: (next) => navigate(next === undefined ? { screen: "inbox" } : { screen: "inbox", askId: next }, "replace"),
  onBack: () => navigate({ screen: "inbox" }),
  onNext: () => openNext(),
};

export const ItemPlaceContext = createContext(inboxPlace);

export function useItemPlace(): ItemPlace {
  return useContext(ItemPlaceContext);
}

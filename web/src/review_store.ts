// Reviews in progress, kept in this browser by agent until they are sent.

import { signal } from "@preact/signals";
import { readStored, writeStored } from "./stored_preferences.ts";
import { emptyReview, type Review } from "./review.ts";

const keyOf = (agentId: string) => `countersign.review.${agentId}`;
const reviews = signal<ReadonlyMap<string, Review>>(new Map());

export function reviewOf(agentId: string): Review {
  return reviews.value.get(agentId) ?? { ...emptyReview, ...(readStored(keyOf(agentId)) as Partial<Review> | undefined) };
}

export function changeReview(agentId: string, change: (review: Review) => Review): void {
  const review = change(reviewOf(agentId));
  reviews.value = new Map(reviews.value).set(agentId, review);
  writeStored(keyOf(agentId), review);
}

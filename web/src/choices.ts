// Answers to the questions of an ask, checked before they are sent. Pure.

import { plural } from "./text.ts";
import type { AnswerLimits, ChoiceQuestion } from "./wire_types.ts";

export interface ChoiceDraft {
  chosen: string[];
  text: string;
}

export const emptyDraft: ChoiceDraft = { chosen: [], text: "" };

/** The answer as it is sent, or what is wrong with it. */
export function answerOf(question: ChoiceQuestion, draft: ChoiceDraft): { texts: string[] } | { problem: string } {
  const text = draft.text.trim();
  const texts = text ? [...draft.chosen, text] : draft.chosen;
  if (texts.length === 0) return question.optional ? { texts } : { problem: "Answer every question that is not optional." };
  const problem = problemOf(question, texts, text);
  return problem === undefined ? { texts } : { problem };
}

function problemOf(question: ChoiceQuestion, texts: string[], text: string): string | undefined {
  const limits = question.limits ?? {};
  if (question.several && limits.min_choices !== undefined && texts.length < limits.min_choices) return `Choose at least ${limits.min_choices}.`;
  if (question.several && limits.max_choices !== undefined && texts.length > limits.max_choices) return `Choose at most ${limits.max_choices}.`;
  if (text === "") return undefined;
  return question.number ? numberProblem(text, limits) : lengthProblem(text, limits);
}

function numberProblem(text: string, limits: AnswerLimits): string | undefined {
  const value = Number(text);
  if (!Number.isFinite(value)) return "The answer has to be a number.";
  if (limits.whole && !Number.isInteger(value)) return "The answer has to be a whole number.";
  if (limits.minimum !== undefined && value < limits.minimum) return `The smallest number is ${limits.minimum}.`;
  if (limits.maximum !== undefined && value > limits.maximum) return `The largest number is ${limits.maximum}.`;
  return undefined;
}

function lengthProblem(text: string, limits: AnswerLimits): string | undefined {
  const length = [...text].length;
  if (limits.min_length !== undefined && length < limits.min_length) return `The answer needs at least ${plural(limits.min_length, "character")}.`;
  if (limits.max_length !== undefined && length > limits.max_length) return `The answer can have at most ${plural(limits.max_length, "character")}.`;
  return undefined;
}

// The form for an ask that wants to know something of people.

import { useState } from "preact/hooks";
import { approvingOption } from "../ask_facts.ts";
import { answerOf, type ChoiceDraft, emptyDraft } from "../choices.ts";
import { clickAct } from "../keys.ts";
import { block, line } from "../visible.ts";
import type { Approval, ChoiceQuestion } from "../wire_types.ts";
import type { Answering } from "./answering.ts";
import { whyNoAnswer } from "./ask_pane.tsx";

export function ChoiceForm({ row, answering }: { row: Approval; answering: Answering }) {
  const questions = row.questions ?? [];
  const [drafts, setDrafts] = useState<ChoiceDraft[]>(questions.map(() => emptyDraft));
  const [problem, setProblem] = useState<string | undefined>(undefined);
  const approving = approvingOption(row);
  const change = (index: number, draft: ChoiceDraft) => setDrafts(drafts.map((other, position) => (position === index ? draft : other)));
  const submit = (event: MouseEvent) => {
    const answers = questions.map((question, index) => answerOf(question, drafts[index] ?? emptyDraft));
    const wrong = answers.find((answer) => "problem" in answer);
    const why = whyNoAnswer(row, answering) ?? ("why" in approving ? approving.why : undefined) ?? (wrong && "problem" in wrong ? wrong.problem : undefined);
    setProblem(why);
    if (why !== undefined || "why" in approving) return;
    const texts = answers.map((answer) => ("texts" in answer ? answer.texts : []));
    answering.reply(clickAct(event, "reply"), { resolution: approving.option, answers: texts });
  };
  return (
    <div class="choice-form">
      {questions.map((question, index) => (
        <QuestionFields key={index} question={question} name={`question-${index}`} draft={drafts[index] ?? emptyDraft} onChange={(draft) => change(index, draft)} />
      ))}
      {problem !== undefined && <p class="notice bad" role="alert">{problem}</p>}
      {row.state === "pending" && <button class="primary" onClick={submit}>{answering.mode.type === "sending" ? "Sending…" : "Send answer"}</button>}
    </div>
  );
}

interface QuestionFieldsProps {
  question: ChoiceQuestion;
  name: string;
  draft: ChoiceDraft;
  onChange(draft: ChoiceDraft): void;
}

function QuestionFields({ question, name, draft, onChange }: QuestionFieldsProps) {
  const toggle = (label: string) => {
    if (!question.several) return onChange({ ...draft, chosen: [label], text: "" });
    const chosen = draft.chosen.includes(label) ? draft.chosen.filter((other) => other !== label) : [...draft.chosen, label];
    onChange({ ...draft, chosen });
  };
  const hasText = question.free_text || question.choices.length === 0;
  return (
    <fieldset data-read>
      <legend>
        {question.header !== undefined && <span class="muted small">{line(question.header)} </span>}
        <strong>{block(question.question)}</strong>
        <span class="muted small"> {[question.several && "several can be chosen", question.optional && "optional"].filter(Boolean).join(", ")}</span>
      </legend>
      {question.choices.map((choice) => (
        <label key={choice.label} class="choice">
          <input type={question.several ? "checkbox" : "radio"} name={name} checked={draft.chosen.includes(choice.label)} onChange={() => toggle(choice.label)} />
          <span><span>{line(choice.label)}</span>{choice.description !== undefined && <span class="muted small choice-note">{block(choice.description)}</span>}</span>
        </label>
      ))}
      {hasText && (
        <input
          type="text" inputMode={question.number ? "decimal" : "text"} aria-label={question.choices.length > 0 ? "Another answer" : "Your answer"}
          placeholder={question.choices.length > 0 ? "Another answer" : "Your answer"} value={draft.text}
          onInput={(event) => onChange({ chosen: question.several ? draft.chosen : [], text: event.currentTarget.value })}
        />
      )}
    </fieldset>
  );
}

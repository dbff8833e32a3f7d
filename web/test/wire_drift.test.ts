// The shapes in `src/wire_*.ts` are those of the host: its OpenAPI document has the same fields with the same types.
//
// A field that the host adds is either added there or named here as not used, so that nobody forgets to look at it.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import ts from "typescript";

declare const WEB_FOLDER: string;

interface Schema {
  $ref?: string;
  type?: string | string[];
  enum?: string[];
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  additionalProperties?: Schema | boolean;
  oneOf?: Schema[];
  allOf?: Schema[];
}

/** Rows of the page by the name that the host's document has for them. */
const rows: Record<string, string> = {
  AgentDiff: "AgentDiff", AnswerResult: "ManyResult", AskViewerRow: "AskViewer", BacktestResult: "BacktestResult", CatalogRow: "CatalogRow", DiffFileRow: "DiffFile",
  FileRule: "FileRule", GrantRow: "Grant", HostAgent: "Agent", HostAnswerLimits: "AnswerLimits", HostApproval: "Approval", HostAskView: "AskView",
  HostChoiceQuestion: "ChoiceQuestion", HostDiffHunk: "DiffHunk", HostDiffLine: "DiffLine", HostEvent: "HostEvent", HostFileEdit: "FileEdit",
  HostQuestion: "Question", HostRule: "HostRule", HostSnapshot: "Snapshot", HostStatus: "HostStatus", HostVerdict: "Verdict",
  HostVerdictPart: "VerdictPart", ManagedRow: "Managed", MinedRule: "MinedRule", NotifyChannelRow: "NotifyChannel", PlanStepRow: "PlanStep",
  QueuedMessageRow: "QueuedMessage",
  RuleCandidate: "RuleCandidate", RuleProblem: "RuleProblem", RulesResult: "RulesResult", SandboxRow: "Sandbox",
  TerminalOutputResult: "TerminalOutput", TerminalRow: "TerminalRow", TokenRow: "TokenRow", TranscriptResult: "TranscriptPage",
  TranscriptRow: "TranscriptEntry", UntrustedFileRow: "UntrustedRules", UsageRow: "Usage", Who: "Who", WorktreeRow: "Worktree",
};

/** What the page sends. It need not send everything that it may. */
const bodies: Record<string, string> = { AddRuleParams: "NewRule", ResolutionBody: "Resolution", SpawnAgentParams: "SpawnParams" };

/** Fields of rows that the page does not use. */
const unused: Record<string, string[]> = {
  HostAgent: ["capabilities", "display", "metadata", "pid", "session_id", "status"],
  HostApproval: ["a2ui", "answerable", "idempotency_key", "status", "subscribed"],
  HostIdentity: ["manifest_path", "manifest_role"],
  HostQuestion: ["considered_ms", "door"],
  HostSnapshot: ["devices", "pending_signins", "subscribed"],
  HostStatus: ["agents_alone_ms", "connections", "containment", "pid", "socket", "unnamed_callers"],
  ManagedRow: ["commands", "env", "models", "modes", "session"],
};

const document = JSON.parse(readFileSync(`${WEB_FOLDER}/../docs/openapi.json`, "utf8")) as { components: { schemas: Record<string, Schema> } };
const { schemas } = document.components;

const files = ["wire_types.ts", "wire_agents.ts", "wire_admin.ts"].map((name) => `${WEB_FOLDER}/src/${name}`);
const program = ts.createProgram(files, { strict: true, allowImportingTsExtensions: true, noEmit: true, target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler });
const checker = program.getTypeChecker();
const exported = new Map(files.flatMap((file) => {
  const source = program.getSourceFile(file);
  const module = source && checker.getSymbolAtLocation(source);
  return module ? checker.getExportsOfModule(module).map((symbol) => [symbol.name, symbol] as const) : [];
}));

function typeNamed(name: string): ts.Type {
  const symbol = exported.get(name);
  assert.ok(symbol, `${name} is not exported`);
  return checker.getDeclaredTypeOfSymbol(symbol);
}

function refName(schema: Schema): string | undefined {
  return schema.$ref?.split("/").pop();
}

/** A schema without what says that the value may be absent. */
function present(schema: Schema): Schema {
  const [only, ...others] = (schema.oneOf ?? schema.allOf ?? []).filter((one) => one.type !== "null");
  return only && others.length === 0 ? present(only) : schema;
}

function resolved(schema: Schema): Schema {
  const name = refName(schema);
  const found = name === undefined ? schema : schemas[name];
  assert.ok(found, `the document has no ${name}`);
  return found;
}

/** What differs between a type of the page and a schema of the host. */
function differences(type: ts.Type, sent: Schema, where: string, isBody: boolean): string[] {
  const schema = present(sent);
  const itself = checker.getNonNullableType(type);
  const name = refName(schema);
  const page = name === undefined ? undefined : rows[name] ?? bodies[name];
  // A row with a name of its own is compared by itself.
  if (page !== undefined && nameOf(itself) === page) return [];
  return compareValues(itself, resolved(schema), name ?? where, where, isBody);
}

function nameOf(type: ts.Type): string | undefined {
  return (type.aliasSymbol ?? type.getSymbol())?.name;
}

function compareValues(type: ts.Type, schema: Schema, name: string, where: string, isBody: boolean): string[] {
  const said = (Array.isArray(schema.type) ? schema.type : [schema.type]).filter((word) => word !== "null");
  const isAny = (type.flags & (ts.TypeFlags.Any | ts.TypeFlags.Unknown)) !== 0;
  const is = (flag: ts.TypeFlags) => (type.isUnion() ? type.types : [type]).every((one) => (one.flags & flag) !== 0);
  const wrong = (what: string) => [`${where}: the host has ${what}, the page ${checker.typeToString(type)}`];
  if (isAny) return [];
  if (schema.enum) return compareWords(type, schema.enum, where);
  if (schema.oneOf) return compareVariants(type, schema.oneOf, where, isBody);
  if (said.includes("array")) {
    const element = checker.getTypeArguments(type as ts.TypeReference)[0];
    if (!checker.isArrayType(type) || !element) return wrong("a list");
    return differences(element, schema.items ?? {}, `${where}[]`, isBody);
  }
  if (schema.properties) return compareFields(type, schema, name, where, isBody);
  if (said.includes("string")) return is(ts.TypeFlags.StringLike) ? [] : wrong("a text");
  if (said.includes("integer") || said.includes("number")) return is(ts.TypeFlags.NumberLike) ? [] : wrong("a number");
  if (said.includes("boolean")) return is(ts.TypeFlags.BooleanLike) ? [] : wrong("true or false");
  if (typeof schema.additionalProperties === "object") {
    const element = checker.getIndexTypeOfType(type, ts.IndexKind.String);
    return element ? differences(element, schema.additionalProperties, `${where}.*`, isBody) : wrong("names and values");
  }
  return [];
}

/** Words that stand for something: all of them, or any text. */
function compareWords(type: ts.Type, words: string[], where: string): string[] {
  if (type.flags & ts.TypeFlags.String) return [];
  const known = (type.isUnion() ? type.types : [type]).map((one) => (one.isStringLiteral() ? one.value : checker.typeToString(one)));
  const [missing, surplus] = [words.filter((word) => !known.includes(word)), known.filter((word) => !words.includes(word))];
  return missing.length + surplus.length === 0 ? [] : [`${where}: not known here: ${missing.join(" ")}; not known to the host: ${surplus.join(" ")}`];
}

/** Variants: told apart by `type`, or by their shape alone, of which the page need not know all. */
function compareVariants(type: ts.Type, variants: Schema[], where: string, isBody: boolean): string[] {
  if (variants.every((variant) => resolved(variant).properties?.type === undefined)) {
    const members = type.isUnion() ? type.types : [type];
    const isKnown = (member: ts.Type) => variants.some((variant) => differences(member, variant, where, isBody).length === 0);
    return members.filter((member) => !isKnown(member)).map((member) => `${where}: the host knows no ${checker.typeToString(member)}`);
  }
  return variants.flatMap((variant) => {
    const schema = resolved(variant);
    const [word] = resolved(schema.properties?.type ?? {}).enum ?? [];
    if (word === undefined) return [`${where}: a variant has no type`];
    const found = (type.isUnion() ? type.types : [type]).find((one) => {
      const tag = one.getProperty("type");
      const tagType = tag && checker.getTypeOfSymbol(tag);
      return (tagType?.isUnion() ? tagType.types : [tagType]).some((other) => other?.isStringLiteral() && other.value === word);
    });
    if (!found) return [`${where}: the page does not know ${word}`];
    const { type: _tag, ...properties } = schema.properties ?? {};
    return compareFields(found, { ...schema, properties }, `${where}.${word}`, `${where}.${word}`, isBody);
  });
}

function compareFields(type: ts.Type, schema: Schema, name: string, where: string, isBody: boolean): string[] {
  const properties = schema.properties ?? {};
  const fields = new Map(checker.getPropertiesOfType(type).map((field) => [field.name, field]));
  const left = new Set(unused[name]);
  const found: string[] = [];
  for (const [field, symbol] of fields) {
    const sent = properties[field];
    if (field === "type" && sent === undefined) continue;
    if (sent === undefined) found.push(`${where}.${field} is not sent by the host`);
    else found.push(...differences(checker.getTypeOfSymbol(symbol), sent, `${where}.${field}`, isBody));
    const isOptional = (symbol.flags & ts.SymbolFlags.Optional) !== 0;
    const isRequired = schema.required?.includes(field) ?? false;
    if (!isBody && !isOptional && !isRequired && sent !== undefined) found.push(`${where}.${field} may be absent`);
    if (isBody && isOptional && isRequired) found.push(`${where}.${field} has to be sent`);
    if (left.has(field)) found.push(`${where}.${field} is used, and named as not used`);
  }
  for (const field of Object.keys(properties)) {
    const isMissing = !fields.has(field) && !left.has(field);
    if (isMissing && (!isBody || schema.required?.includes(field))) found.push(`${where}.${field} is not known to the page`);
  }
  for (const field of left) if (!(field in properties)) found.push(`${where}.${field} is named as not used, and the host has no such field`);
  return found;
}

for (const [schema, type] of Object.entries(rows)) {
  test(`${type} is the host's ${schema}`, () => {
    assert.deepEqual(compareValues(typeNamed(type), resolved({ $ref: schema }), schema, type, false), []);
  });
}

for (const [schema, type] of Object.entries(bodies)) {
  test(`${type} is taken by the host as ${schema}`, () => {
    assert.deepEqual(compareValues(typeNamed(type), resolved({ $ref: schema }), schema, type, true), []);
  });
}

test("every row of the page is compared with the host's", () => {
  const own = new Set(["Methods", "AgentMethods", "AdminMethods", "ErrorData"]);
  const interfaces = [...exported.values()].filter((symbol) => symbol.flags & ts.SymbolFlags.Interface && !own.has(symbol.name));
  const compared = new Set([...Object.values(rows), ...Object.values(bodies)]);
  assert.deepEqual(interfaces.map((symbol) => symbol.name).filter((name) => !compared.has(name)), []);
});

test("a field that one side lacks, and one of another type, are found", () => {
  const schema: Schema = { properties: { name: { type: "string" }, age: { type: "integer" } }, required: ["age"] };
  assert.deepEqual(compareValues(typeNamed("Who"), schema, "Who", "Who", false), [
    "Who.agent_id is not sent by the host", "Who.name may be absent", "Who.role is not sent by the host", "Who.age is not known to the page",
  ]);
});

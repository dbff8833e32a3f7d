import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

declare const WEB_FOLDER: string;

type Palette = Map<string, [string, string]>;

/** Colours by name, light and dark, of the block that begins with this selector. */
function readPalette(css: string, selector: string): Palette {
  const start = css.indexOf(selector);
  const block = css.slice(start, css.indexOf("\n}", start));
  const found = block.matchAll(/--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)/g);
  return new Map([...found].map(([, name, light, dark]) => [name ?? "", [light ?? "", dark ?? ""]]));
}

function luminance(color: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((start) => {
    const part = parseInt(color.slice(start, start + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(one: string, other: string): number {
  const [light = 0, dark = 0] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
}

const grounds = ["bg", "surface", "raised", "sunken", "selected", "code-bg", "warn-bg", "bad-bg", "added-bg", "removed-bg"];
const plainGrounds = ["bg", "surface", "raised", "sunken", "selected"];
const pairs = [
  ...grounds.map((ground) => ["text", ground]),
  ...plainGrounds.flatMap((ground) => ["muted", "accent", "good", "bad", "warn"].map((text) => [text, ground])),
  ["text", "added-mark"], ["text", "removed-mark"], ["muted", "added-bg"], ["muted", "removed-bg"], ["muted", "code-bg"],
  ["good", "code-bg"], ["bad", "code-bg"], ["warn", "warn-bg"], ["bad", "bad-bg"],
  ["on-accent", "accent-fill"], ["on-good", "good-fill"], ["on-bad", "bad-fill"],
];

test("text has enough contrast on every ground in every theme", () => {
  const css = readFileSync(`${WEB_FOLDER}/src/style/tokens.css`, "utf8");
  const usual = readPalette(css, ":root {");
  const high = new Map([...usual, ...readPalette(css, ':root[data-theme="contrast"]')]);
  const weak: string[] = [];
  for (const [theme, palette] of [["usual", usual], ["contrast", high]] as const) {
    for (const [text = "", ground = ""] of pairs) {
      for (const side of [0, 1] as const) {
        const [front, back] = [palette.get(text)?.[side], palette.get(ground)?.[side]];
        assert.ok(front && back, `${text} on ${ground}`);
        if (contrast(front, back) < 4.5) weak.push(`${theme} ${side === 0 ? "light" : "dark"}: ${text} on ${ground} ${contrast(front, back).toFixed(2)}`);
      }
    }
  }
  assert.deepEqual(weak, []);
});

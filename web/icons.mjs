// The icons, drawn here: a rounded square with two check marks, one over the other, as in "countersigned".
//
// A PNG encoder of a few lines takes the place of an image library, and no binary file has to be kept.

import { deflateSync } from "node:zlib";

const GROUND = [31, 79, 140];
const FIRST_MARK = [147, 188, 240];
const SECOND_MARK = [255, 255, 255];

// In units of the icon's edge.
const MARKS = [
  { color: FIRST_MARK, points: [[0.2, 0.42], [0.4, 0.62], [0.74, 0.26]] },
  { color: SECOND_MARK, points: [[0.28, 0.56], [0.48, 0.76], [0.82, 0.4]] },
];
const STROKE = 0.09;
const CORNER = 0.22;

export function iconSvg() {
  const hex = (color) => `#${color.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
  const marks = MARKS.map(({ color, points }) => {
    const path = points.map(([x, y]) => `${x * 100},${y * 100}`).join(" ");
    return `<polyline points="${path}" fill="none" stroke="${hex(color)}" stroke-width="${STROKE * 100}" stroke-linecap="round" stroke-linejoin="round"/>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100"><rect width="100" height="100" rx="${CORNER * 100}" fill="${hex(GROUND)}"/>${marks.join("")}</svg>\n`;
}

/** Name and bytes of each PNG. A maskable icon fills its square and keeps the marks in the middle. */
export function iconFiles() {
  return [
    ["icon-192.png", png(192, { corner: CORNER, scale: 1 })],
    ["icon-512.png", png(512, { corner: CORNER, scale: 1 })],
    ["maskable-512.png", png(512, { corner: 0, scale: 0.7 })],
  ];
}

function png(size, shape) {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(size, 0);
  header.writeUInt32BE(size, 4);
  header.set([8, 6, 0, 0, 0], 8);
  return Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    chunk("IHDR", header),
    chunk("IDAT", deflateSync(pixels(size, shape), { level: 9 })),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

function pixels(size, shape) {
  const rows = Buffer.alloc(size * (size * 4 + 1));
  let offset = 0;
  for (let y = 0; y < size; y++) {
    rows[offset++] = 0;
    for (let x = 0; x < size; x++) {
      rows.set(pixel((x + 0.5) / size, (y + 0.5) / size, 1 / size, shape), offset);
      offset += 4;
    }
  }
  return rows;
}

function pixel(x, y, edge, shape) {
  let color = GROUND;
  const inside = coverage(squareDistance(x, y, shape.corner), edge);
  const [markX, markY] = [(x - 0.5) / shape.scale + 0.5, (y - 0.5) / shape.scale + 0.5];
  for (const mark of MARKS) {
    const share = coverage(lineDistance(markX, markY, mark.points) - STROKE / 2, edge / shape.scale);
    color = color.map((part, index) => part + (mark.color[index] - part) * share);
  }
  return [...color.map(Math.round), Math.round(255 * inside)];
}

/** How much of a pixel lies inside, by the signed distance of its middle from the border. */
function coverage(distance, edge) {
  return Math.min(1, Math.max(0, 0.5 - distance / edge));
}

function squareDistance(x, y, corner) {
  const [dx, dy] = [Math.abs(x - 0.5) - 0.5 + corner, Math.abs(y - 0.5) - 0.5 + corner];
  return Math.hypot(Math.max(dx, 0), Math.max(dy, 0)) + Math.min(Math.max(dx, dy), 0) - corner;
}

function lineDistance(x, y, points) {
  const distances = points.slice(1).map((end, index) => segmentDistance(x, y, points[index], end));
  return Math.min(...distances);
}

function segmentDistance(x, y, [ax, ay], [bx, by]) {
  const [dx, dy] = [bx - ax, by - ay];
  const along = ((x - ax) * dx + (y - ay) * dy) / (dx * dx + dy * dy);
  const share = Math.min(1, Math.max(0, along));
  return Math.hypot(x - ax - dx * share, y - ay - dy * share);
}

function chunk(type, content) {
  const body = Buffer.concat([Buffer.from(type, "latin1"), content]);
  const framed = Buffer.alloc(body.length + 8);
  framed.writeUInt32BE(content.length, 0);
  body.copy(framed, 4);
  framed.writeUInt32BE(crc32(body), body.length + 4);
  return framed;
}

function crc32(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  return (crc ^ 0xffffffff) >>> 0;
}

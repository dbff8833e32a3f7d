import { defineConfig, devices } from "@playwright/test";

const port = Number(process.env.WEB_TEST_PORT ?? 5199);
const desktop = { viewport: { width: 1360, height: 860 } };
const phone = devices["Pixel 7"];

// The tests against the built host need to know where it is.
const hostProjects = process.env.COUNTERSIGN_BIN === undefined ? [] : [
  { name: "host", testMatch: /real.*\.spec/, timeout: 90_000, use: desktop },
  { name: "host-phone", testMatch: /real.*\.spec/, grepInvert: /@keyboard/, timeout: 90_000, use: phone },
];
// Pictures are no tests: they are taken where somebody wants to look at them.
const shotProjects = process.env.SHOTS_DIR === undefined ? [] : [
  { name: "shots-desktop", testMatch: /shots\.ts/, use: desktop },
  { name: "shots-phone", testMatch: /shots\.ts/, use: phone },
];
if (hostProjects.length === 0) console.warn("COUNTERSIGN_BIN is not set: the tests against the built host are left out");

export default defineConfig({
  testDir: "browser_tests",
  fullyParallel: true,
  workers: 2,
  timeout: 60_000,
  // What is waited for is there within a second on a machine that does nothing else.
  expect: { timeout: 15_000 },
  // Other work on a machine that runs everything at once can make a test miss its time.
  retries: 2,
  reporter: "list",
  use: {
    baseURL: `http://127.0.0.1:${port}`,
    launchOptions: {
      executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
      args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
    },
    serviceWorkers: "block",
  },
  projects: [
    { name: "desktop", testIgnore: /real.*\.spec/, use: desktop },
    { name: "phone", testIgnore: /real.*\.spec/, use: phone },
    ...hostProjects,
    ...shotProjects,
  ],
  // Only the files: the host of the other tests is in the tests themselves.
  webServer: { command: `node dev.mjs 127.0.0.1:1 ${port}`, port, reuseExistingServer: false },
});

import { defineConfig, devices } from "@playwright/test";

const port = 5199;
const desktop = { viewport: { width: 1360, height: 860 } };
const phone = devices["Pixel 7"];

// The tests against the built host need to know where it is.
const hostProjects = process.env.COUNTERSIGN_BIN === undefined ? [] : [
  { name: "host", testMatch: /real\.spec/, timeout: 90_000, use: desktop },
  { name: "host-phone", testMatch: /real\.spec/, grep: /approv/, timeout: 90_000, use: phone },
];
if (hostProjects.length === 0) console.warn("COUNTERSIGN_BIN is not set: the tests against the built host are left out");

export default defineConfig({
  testDir: "browser_tests",
  fullyParallel: true,
  workers: 2,
  timeout: 30_000,
  // Other work on a machine that runs everything at once can make a test miss its time.
  retries: process.env.CI === undefined ? 0 : 2,
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
    { name: "desktop", testIgnore: /real\.spec/, use: desktop },
    { name: "phone", testIgnore: /real\.spec/, use: phone },
    ...hostProjects,
  ],
  // Only the files: the host of the other tests is in the tests themselves.
  webServer: { command: `node dev.mjs 127.0.0.1:1 ${port}`, port, reuseExistingServer: false },
});

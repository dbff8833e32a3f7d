import { defineConfig, devices } from "@playwright/test";

const port = 5199;

export default defineConfig({
  testDir: "browser_tests",
  fullyParallel: true,
  workers: 2,
  timeout: 30_000,
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
    { name: "desktop", use: { viewport: { width: 1360, height: 860 } } },
    { name: "phone", use: { ...devices["Pixel 7"] } },
  ],
  // Only the files: the host of these tests is in the tests themselves.
  webServer: { command: `node dev.mjs 127.0.0.1:1 ${port}`, port, reuseExistingServer: false },
});

import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

/** Examples import the package by its name, as its users do; here that is the source. */
const source = fileURLToPath(new URL('./src/', import.meta.url));
const alias = [
  { find: /^duolane$/, replacement: `${source}index.ts` },
  { find: /^duolane\/([\w/-]+)$/, replacement: `${source}$1/index.ts` },
];

/**
 * Limits for what hangs, not for what is slow: no test may depend on how busy the machine is. A poll
 * waits for an event, so it has as long.
 */
const PATIENT = {
  testTimeout: 300_000,
  hookTimeout: 300_000,
  expect: { poll: { timeout: 120_000 } },
};

/** `unit`: beside the code, in seconds. `system`: crosses parts, starts processes, talks to peers. */
export default defineConfig({
  test: {
    // Most of them wait for processes and sockets, so even two cores have room for two files.
    maxWorkers: 2,
    projects: [
      {
        test: {
          name: 'unit',
          include: ['src/**/*.test.ts'],
          isolate: false,
          ...PATIENT,
        },
      },
      {
        resolve: { alias },
        test: {
          name: 'system',
          include: ['test/**/*.test.ts', 'examples/**/*.test.ts'],
          globalSetup: ['test/build.ts'],
          isolate: false,
          ...PATIENT,
        },
      },
    ],
  },
});

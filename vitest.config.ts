import { defineConfig } from 'vitest/config';

/** `unit`: beside the code, in seconds. `system`: crosses parts, starts processes, talks to peers. */
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: 'unit',
          include: ['src/**/*.test.ts'],
          isolate: false,
          testTimeout: 10_000,
        },
      },
      {
        test: {
          name: 'system',
          include: ['test/**/*.test.ts', 'examples/**/*.test.ts'],
          globalSetup: ['test/build.ts'],
          isolate: false,
          testTimeout: 30_000,
        },
      },
    ],
  },
});

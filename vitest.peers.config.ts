import { defineConfig } from 'vitest/config';

/** `npm run test:peers`: the real CLIs of others, large and slow to start, one at a time. */
export default defineConfig({
  test: {
    include: ['test/peers/**/*.peer.ts'],
    isolate: false,
    fileParallelism: false,
    testTimeout: 120_000,
    hookTimeout: 600_000,
  },
});

import { build } from '../scripts/setup.mjs';

/** Runs once before the system tests: they start and pack what users get, so `dist` must be fresh. */
export default async function setup(): Promise<void> {
  const { code, output } = await build();
  // The compiler writes its output all the same; `npm test` counts this as a failure of its own.
  if (code !== 0) process.stderr.write(`The build has errors:\n${output}`);
}

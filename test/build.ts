import { build } from '../scripts/setup.mjs';

/** Builds once before the system tests, which start and pack `dist` as users get it. */
export default async function setup(): Promise<void> {
  const { code, output } = await build();
  // The compiler writes its output despite errors; `npm test` counts them as a separate failure.
  if (code !== 0) process.stderr.write(`The build has errors:\n${output}`);
}

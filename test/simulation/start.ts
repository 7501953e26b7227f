import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Report } from './main.ts';

const run = promisify(execFile);

/** Runs schedules in a process of its own. `module` is what `bundle` returned. */
export async function runSchedules(
  module: string,
  options: Readonly<Record<string, number | string | true | undefined>>,
  env: NodeJS.ProcessEnv = process.env,
): Promise<Report> {
  const flags = Object.entries(options).flatMap(([name, value]) =>
    value === undefined ? [] : value === true ? [`--${name}`] : [`--${name}`, String(value)],
  );
  const { stdout } = await run(process.execPath, [module, ...flags], {
    maxBuffer: 1 << 28,
    env,
  });
  return JSON.parse(stdout) as Report;
}

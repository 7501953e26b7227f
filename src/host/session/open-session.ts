import type { SessionOptions } from '../options/options.ts';
import type { AgentSession } from './agent-session.ts';
import type { Session } from '../types.ts';

/**
 * Starts an agent CLI and speaks with it. Rejects with `invalid` for options that cannot be meant.
 * Whatever is wrong with the CLI itself shows in the session: `ready()`, `done` and its loops.
 */
export async function openSession(options: SessionOptions = {}): Promise<Session> {
  return startSession(options);
}

/**
 * `openSession` for those who drive it from within. The driver and all that it stands on are loaded
 * with the first session, so that a program which only imports the door pays for the door. An abort
 * before the CLI is started rejects with the signal's reason, and nothing is started.
 */
export async function startSession(
  options: SessionOptions,
  signal?: AbortSignal,
): Promise<AgentSession> {
  const driver = await import('./create-session.ts');
  return driver.createSession(options, signal);
}

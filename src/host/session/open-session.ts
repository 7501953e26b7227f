import type { SessionOptions } from '../options/options.ts';
import type { AgentSession } from './agent-session.ts';
import type { InternalOptions } from './create-session.ts';
import type { Session } from '../types.ts';

/**
 * Starts an agent CLI and opens a session with it. Rejects with `invalid` for invalid options. A
 * failure of the CLI itself is reported by the session: by `ready()`, by `done`, and in its loops.
 *
 * @example
 * await using session = await openSession({ model: 'sonnet' });
 * await session.send('Hello');
 * for await (const message of session.response()) console.log(message);
 */
export async function openSession(options: SessionOptions = {}): Promise<Session> {
  return startSession(options);
}

/**
 * `openSession` with the internal members of the session, for `query` and `cli`. The session's code
 * is loaded with the first session, so that importing the package stays cheap. An abort before the
 * CLI is started rejects with the signal's reason, and no process is started.
 */
export async function startSession(
  options: SessionOptions,
  signal?: AbortSignal,
  internal?: InternalOptions,
): Promise<AgentSession> {
  const driver = await import('./create-session.ts');
  return driver.createSession(options, signal, internal);
}

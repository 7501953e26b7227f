import type { Logger } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import type { Transport } from '../../process/types.ts';
import { settledWithin } from '../../stream/abort.ts';
import type { ControlResponse, ControlRequest } from '../../wire/control-peer.ts';
import { isSessionEndHook } from '../callbacks/hook-registry.ts';
import type { ControlHandler, ServeContext } from './control-link.ts';
import type { FrameQueue } from '../frames/frame-queue.ts';
import type { McpBridge } from '../callbacks/mcp-bridge.ts';
import type { TimeoutLimits } from './session-timeouts.ts';

/** What a session is made of; `openSession` puts it together. */
export interface SessionParts {
  readonly transport: Transport;
  readonly lanes: FrameQueue;
  readonly bridge: McpBridge;
  readonly serve: ControlHandler;
  readonly initialize: JsonObject;
  /** Throws if what the CLI answered to `initialize` will not do; no message is sent before. */
  readonly checkInitialized?: (answer: JsonObject) => void;
  readonly limits: TimeoutLimits;
  readonly maxLineBytes?: number;
  readonly logger: Logger;
  readonly oneshot: boolean;
  /** The id that was asked for, if the CLI is to keep it. */
  readonly expectedId: string | undefined;
  /** Gets the transcript as the CLI mirrors it. */
  readonly onMirror?: (frame: JsonObject) => void;
  /** The process is gone: what was held for it is given back. */
  readonly onEnded: () => Promise<void>;
}

/** Gives back what was held for the CLI. What takes long goes on, and what fails is reported. */
export async function releaseParts({ logger, limits, onEnded }: SessionParts): Promise<void> {
  const report = (why: string): void =>
    logger.warn('what the session held was not released', { why });
  const released = onEnded();
  released.catch((error: unknown) => report(String(error)));
  if (!(await settledWithin(released, limits.cleanupMs)))
    report(`it takes longer than ${limits.cleanupMs} ms`);
}

/** What nobody can hear about must not happen either, but for a goodbye, which needs no answer. */
export async function serveUnheard(
  { serve, logger }: SessionParts,
  request: ControlRequest,
  context: ServeContext,
): Promise<ControlResponse | undefined> {
  if (!isSessionEndHook(request)) return { ok: false, error: 'stdin of the agent is closed' };
  serve(request, context).catch((error: unknown) =>
    logger.warn('a SessionEnd hook failed', { error: String(error) }),
  );
  return undefined;
}

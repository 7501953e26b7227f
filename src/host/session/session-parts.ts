import type { Logger } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import type { Transport } from '../../process/types.ts';
import { settledWithin } from '../../stream/abort.ts';
import type { ControlResponse, ControlRequest } from '../../wire/control-peer.ts';
import { isSessionEndHook } from '../callbacks/hook-registry.ts';
import type { ControlCall, ControlHandler } from '../../wire/control-link.ts';
import type { FrameQueue } from '../frames/frame-queue.ts';
import type { McpBridge } from '../callbacks/mcp-bridge.ts';
import type { StoreMirror } from '../transcripts/store-mirror.ts';
import type { TimeoutLimits } from './session-timeouts.ts';

/** The parts of a session; `createSession` creates them. */
export interface SessionParts {
  readonly transport: Transport;
  readonly lanes: FrameQueue;
  readonly bridge: McpBridge;
  readonly handle: ControlHandler;
  readonly initialize: JsonObject;
  /**
   * Throws if the CLI lacks a feature that the session needs. No message is sent before this check.
   */
  readonly checkInitialized?: ((answer: JsonObject) => void) | undefined;
  readonly limits: TimeoutLimits;
  readonly maxLineBytes?: number | undefined;
  readonly logger: Logger;
  readonly oneshot: boolean;
  /** Whether the CLI must pass the text of messages to the model unchanged. */
  readonly verbatim?: boolean | undefined;
  /** The id that the options request; undefined if the CLI chooses one. */
  readonly expectedId: string | undefined;
  /** Gets the `transcript_mirror` frames of the CLI. */
  readonly mirror?: StoreMirror | undefined;
  /** Releases the resources of the session. Called when the process is gone. */
  readonly onEnded: () => Promise<void>;
}

/**
 * Releases the resources of the session. A release that takes longer than `cleanupMs` continues in
 * the background, so that it cannot delay the end of the session; it is logged, and so is an error.
 */
export async function releaseParts({ logger, limits, onEnded }: SessionParts): Promise<void> {
  const report = (why: string): void =>
    logger.warn('resources of the session were not released', { why });
  const released = onEnded();
  released.catch((error: unknown) => report(String(error)));
  if (!(await settledWithin(released, limits.cleanupMs)))
    report(`it takes longer than ${limits.cleanupMs} ms`);
}

/**
 * Handles a request that comes after stdin was closed. No response can be sent, so the request is
 * refused without effect. SessionEnd hooks still run: the CLI does not wait for their response.
 */
export function refuseLateRequest(
  { handle, logger }: SessionParts,
  request: ControlRequest,
  call: ControlCall,
): ControlResponse | undefined {
  if (!isSessionEndHook(request)) return { ok: false, error: 'stdin of the agent is closed' };
  Promise.resolve(handle(request, call)).catch((error: unknown) =>
    logger.warn('a SessionEnd hook failed', { error: String(error) }),
  );
  return undefined;
}

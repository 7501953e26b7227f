import type { Logger } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import type { Transport } from '../../process/types.ts';
import type { Serve } from './control-link.ts';
import type { Lanes } from '../frames/frame-queue.ts';
import type { McpBridge } from '../callbacks/mcp-bridge.ts';
import type { Limits } from './session-timeouts.ts';

/** What a session is made of; `openSession` puts it together. */
export interface SessionParts {
  readonly transport: Transport;
  readonly lanes: Lanes;
  readonly bridge: McpBridge;
  readonly serve: Serve;
  readonly initialize: JsonObject;
  /** Throws if what the CLI answered to `initialize` will not do; no message is sent before. */
  readonly checkInitialized?: (answer: JsonObject) => void;
  readonly limits: Limits;
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

import type { JsonObject } from '../../json.ts';
import { ToolCallLog } from './tool-calls.ts';
import { StdinGate } from './stdin-gate.ts';
import { mayEndTurn, isInternal } from '../frames/host-messages.ts';
import type { SessionParts } from './session-parts.ts';
import { TurnTracker } from './turn-tracker.ts';

const BEGINS = { turnBegins: true };

export interface ConversationOptions extends Pick<
  SessionParts,
  'lanes' | 'bridge' | 'logger' | 'expectedId' | 'mirror'
> {
  /** The open control requests, which hold stdin open. */
  readonly requests: ConstructorParameters<typeof StdinGate>[1];
  /** The CLI has sent its session id for the first time. */
  readonly onNamed: () => void;
  /** Called after each message: a turn or a background task may have ended. */
  readonly onSettled: () => void;
  /** The open turns may have ended inside another turn, without a report of the CLI. */
  readonly onDoubt: () => void;
}

/**
 * Keeps the state of the session that messages of the CLI report. It reads each message before the
 * app does.
 */
export class SessionTracker {
  readonly turns: TurnTracker = new TurnTracker();
  readonly gate: StdinGate;
  readonly calls: ToolCallLog = new ToolCallLog();
  readonly #options: ConversationOptions;
  #named = false;
  #id: string;

  constructor(options: ConversationOptions) {
    this.#options = options;
    this.gate = new StdinGate(this.turns, options.requests);
    this.#id = options.expectedId ?? '';
  }

  /** The id that the options request, then the one that the CLI reports. */
  get id(): string {
    return this.#id;
  }

  take(data: JsonObject, line: string, at: number): void {
    const { lanes, mirror, onDoubt, onSettled } = this.#options;
    const turn = this.turns.observe(data);
    this.gate.observe(data);
    this.calls.observe(data, line.length);
    if (!this.#named && typeof data['session_id'] === 'string') this.#name(data['session_id']);
    if (isInternal(data)) {
      lanes.internal(data, at);
      if (data['type'] === 'transcript_mirror') mirror?.take(data);
    } else {
      lanes.message(data, at, turn, line);
      if (data['subtype'] === 'init') this.#checkServers(data);
    }
    if (!mayEndTurn(data)) this.#merged(turn);
    else if (this.turns.doubtful) onDoubt();
    onSettled();
  }

  /** Treats doubtful turns as ended. Called when the CLI has been silent for long enough. */
  assumeMerged(): void {
    this.#merged(this.turns.assumeMerged());
  }

  /** Turns up to this one ended inside another turn: reports it to the app and to the gate. */
  #merged(turn: number): void {
    if (turn === 0) return;
    this.#options.lanes.pushHostMessage('turns_merged', { turn }, turn);
    this.#options.onSettled();
  }

  #name(id: string): void {
    if (id === '') return;
    const { lanes, logger, expectedId: asked, onNamed } = this.#options;
    this.#named = true;
    this.#id = id;

    onNamed();
    if (asked === undefined || asked === id) return;
    logger.warn('the agent opened another session than requested', { asked, id });
    lanes.pushHostMessage('session_id_mismatch', { asked });
  }

  #checkServers(init: JsonObject): void {
    const { bridge, logger, lanes } = this.#options;
    for (const missing of bridge.observe(init['mcp_servers'], BEGINS)) {
      logger.warn('an in-process server is not connected', missing);
      lanes.pushHostMessage('mcp_server_not_listed', missing);
    }
  }
}

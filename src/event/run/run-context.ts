import type { Ask } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import type { Cancellation } from '../../stream/cancellation.ts';
import type { DurableSteps } from '../step-types.ts';
import type { AgentContext } from '../types.ts';
import type { RunHost } from './normalize-agent.ts';

const STOP = Symbol('stop');

/** One getter for all contexts: a getter made for each would give each object its own shape. */
const SIGNAL: PropertyDescriptor = {
  enumerable: true,
  get(this: RunContext) {
    return this[STOP].signal;
  },
};

/**
 * The context that the agent gets. Its signal aborts however the run ends, and is created on first
 * access. `signal` and `ask` are own properties, so that a copy of the context has them, too. It is
 * a class because V8 keeps a shape, and everything that it refers to, until a full collection.
 */
class RunContext implements AgentContext {
  declare readonly signal: AbortSignal;
  readonly ask: Ask;
  readonly task: AgentContext['task'];
  readonly step: AgentContext['step'];
  readonly sleep: AgentContext['sleep'];
  readonly waitFor: AgentContext['waitFor'];
  readonly eventUrl: AgentContext['eventUrl'];
  readonly history: AgentContext['history'];
  readonly logger: AgentContext['logger'];
  declare readonly storage?: NonNullable<AgentContext['storage']>;
  declare readonly trace?: NonNullable<AgentContext['trace']>;
  declare readonly blobs?: NonNullable<AgentContext['blobs']>;
  readonly [STOP]: Cancellation;

  constructor(host: RunHost, stop: Cancellation, ask: Ask, steps: DurableSteps) {
    const { task, logger, storage, trace, blobs, durable = steps, eventUrl = noServer } = host;
    this.ask = ask;
    this.step = durable.step.bind(durable);
    this.sleep = durable.sleep.bind(durable);
    this.waitFor = durable.waitFor.bind(durable);
    this.eventUrl = eventUrl;
    this.task = task;
    this.history = () => host.history();
    this.logger = logger;
    this[STOP] = stop;
    if (storage) this.storage = storage;
    if (trace) this.trace = trace;
    if (blobs) this.blobs = blobs;
    Object.defineProperty(this, 'signal', SIGNAL);
  }
}

function noServer(): never {
  throw new DuolaneError(
    'unsupported',
    'cannot sign an event address here: expected an agent that is run by serve() with `events`',
  );
}

/** Creates the context of one call of an agent. */
export const createContext = (
  host: RunHost,
  stop: Cancellation,
  ask: Ask,
  steps: DurableSteps,
): AgentContext => new RunContext(host, stop, ask, steps);

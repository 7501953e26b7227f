/** One metric, in the terms of OpenTelemetry; `Registry` derives the names of Prometheus. */
export interface Metric {
  readonly name: string;
  readonly kind: 'counter' | 'gauge' | 'histogram';
  readonly help: string;
  readonly unit?: 's';
  readonly labels: readonly string[];
  /** Upper bounds, ascending. */
  readonly buckets?: readonly number[];
}

/** The labels of one series. */
export type Labels = Readonly<Record<string, string>>;

/** Adds to a counter or gauge, or records into a histogram. */
export type Instrument = (value: number) => void;

/** Where measurements go: a `Registry`, or OpenTelemetry. */
export interface Meter {
  /** Returns the instrument of one series. Bind it once if it is used often. */
  bind(metric: Metric, labels: Labels): Instrument;
}

/** From 0.1 to 10 s, with narrow steps where models and cold connections differ. */
const FIRST_TOKEN = [0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 4, 5, 7.5, 10];
/** The buckets of the GenAI conventions for model and tool calls, and longer ones for runs. */
const CALL = Array.from({ length: 14 }, (_, i) => 0.01 * 2 ** i);
const RUN = Array.from({ length: 13 }, (_, i) => 0.1 * 2 ** i);

const metricOf =
  (kind: 'counter' | 'gauge') =>
  (name: string, labels: readonly string[], help: string): Metric => ({ name, kind, help, labels });
const counter = metricOf('counter');
const gauge = metricOf('gauge');
const seconds = (
  name: string,
  labels: readonly string[],
  buckets: readonly number[],
  help: string,
): Metric => ({ name, kind: 'histogram', unit: 's', help, labels, buckets });

type Name =
  | 'firstToken'
  | 'connect'
  | 'modelFirstToken'
  | 'modelCall'
  | 'toolCall'
  | 'run'
  | 'cancel'
  | 'queued'
  | 'activeRuns'
  | 'waitingTurns'
  | 'events'
  | 'cancels'
  | 'retries'
  | 'tokens'
  | 'activeStreams'
  | 'stream'
  | 'streamEvents'
  | 'resumes';

/** Everything that is measured. Labels are agents, tools, codes and protocols, never ids. */
export const METRICS: Readonly<Record<Name, Metric>> = {
  firstToken: seconds(
    'duolane.stream.first_token',
    ['agent'],
    FIRST_TOKEN,
    'From the request to the first text, including queue, connections and retries.',
  ),
  connect: seconds(
    'duolane.run.connect',
    ['agent'],
    FIRST_TOKEN,
    'From the start of a run to its first model call: processes and MCP servers that had to start.',
  ),
  modelFirstToken: seconds(
    'gen_ai.client.operation.time_to_first_chunk',
    ['agent'],
    FIRST_TOKEN,
    'From a model call to its first chunk.',
  ),
  modelCall: seconds('gen_ai.client.operation.duration', ['agent'], CALL, 'Model calls.'),
  toolCall: seconds(
    'gen_ai.execute_tool.duration',
    ['agent', 'tool', 'outcome'],
    CALL,
    'Tool calls.',
  ),
  run: seconds('gen_ai.invoke_agent.duration', ['agent', 'outcome'], RUN, 'Runs of an agent.'),
  cancel: seconds(
    'duolane.cancel',
    ['agent'],
    CALL,
    'From the request to cancel to the end of the run.',
  ),
  queued: seconds(
    'duolane.run.queued',
    ['agent'],
    RUN,
    'From the request to the start of its run.',
  ),
  activeRuns: gauge('duolane.runs.active', ['agent'], 'Runs in this process.'),
  waitingTurns: gauge(
    'duolane.turns.waiting',
    ['agent'],
    'Turns submitted here whose run has not begun.',
  ),
  events: counter('duolane.run.events', ['agent', 'type'], 'Events of agents.'),
  cancels: counter('duolane.cancels', ['agent'], 'Running tasks that were requested to cancel.'),
  retries: counter('duolane.retries', ['agent', 'code'], 'Model calls that were repeated.'),
  tokens: counter('duolane.tokens', ['agent', 'type'], 'Tokens used, as the agent reports them.'),
  activeStreams: gauge('duolane.streams.active', ['protocol'], 'Open streams.'),
  stream: seconds('duolane.stream', ['protocol'], RUN, 'Streams from their headers to their end.'),
  streamEvents: counter('duolane.stream.events', ['protocol'], 'Events that were sent.'),
  resumes: counter(
    'duolane.stream.resumes',
    ['protocol'],
    'Streams that continued after an event id of the client.',
  ),
};

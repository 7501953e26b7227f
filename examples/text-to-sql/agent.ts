import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { DuolaneError } from 'duolane';
import { cli } from 'duolane/adapters';
import type { Agent, AgentContext, AgentEvent, Turn } from 'duolane/event';
import type { ServeOptions } from 'duolane/serve';
import { artifact, fileBlobs, runSteps, type PipelineStep, withArtifactPlan } from 'duolane/task';
import { acknowledge, dataPart, filePart, jsonTextPart, textPart } from '../support/parts.ts';
import { PlanOrNone, type SqlPlan } from './plan.ts';
import { sessionOptions } from './session.ts';
import { summarize } from './summary.ts';
import { openWarehouse, type QueryResult } from './warehouse.ts';

const warehouse = await openWarehouse();
const blobs = fileBlobs({ directory: process.env['BLOBS_FOLDER'] ?? '.duolane/blobs' });
const planner = cli(sessionOptions(warehouse.schema));

const PLAN = ['sql_plan', 'query_summary', 'sql_query', 'query_results'];

/**
 * From a question to a Parquet file, in named steps. After a crash the plan and the stored files are
 * taken from the log; the query only reads, so it is run again.
 */
const answer: Agent = async function* (turn, ctx) {
  let plan: SqlPlan | undefined;
  let result: QueryResult | undefined;
  const made = <T>(value: T | undefined): T => {
    if (value === undefined) throw new DuolaneError('internal', 'a step came before its turn');
    return value;
  };
  const steps: readonly PipelineStep[] = [
    {
      name: 'plan the query',
      async *run() {
        // After a crash the model is not asked again.
        plan = await keptPlan(turn, ctx);
        if (plan === undefined) {
          plan = yield* planQuery(turn, ctx);
          await ctx.storage?.set({ [planKey(turn)]: plan });
        }
        yield notLast(artifact('sql_plan', [jsonTextPart(plan)], idOf(turn, 'sql_plan')));
      },
    },
    {
      name: 'run the query',
      async run() {
        result = await warehouse.query(made(plan).sql, { signal: ctx.signal });
      },
    },
    {
      name: 'summarise the rows',
      async *run() {
        const words = summarize(made(plan), made(result));
        const parts = [textPart(words), dataPart(made(result).preview)];
        // Not as text too: a run's text is an artifact of its own, and there are four.
        yield notLast(artifact('query_summary', parts, idOf(turn, 'query_summary')));
      },
    },
    {
      name: 'store the results',
      async *run() {
        const { sql } = made(plan);
        const { file, rowCount, columns } = made(result);
        const store = ctx.blobs ?? ownBlobs(turn, ctx.signal);
        const text = { mediaType: 'application/sql', filename: 'query.sql' };
        const query = await ctx.step('store the query', () => store.put(text, [Buffer.from(sql)]));
        const data = { type: 'artifact', uri: query.url, resource_type: 'sql' };
        const metadata = { dialect: 'duckdb', sql };
        const statement = [dataPart({ ...data, metadata })];
        yield notLast(artifact('sql_query', statement, idOf(turn, 'sql_query')));
        const table = {
          mediaType: 'application/vnd.apache.parquet',
          filename: 'query_results.parquet',
        };
        const rows = await ctx.step('store the rows', () =>
          store.put(table, createReadStream(file)),
        );
        const part = filePart(rows.url, 'parquet', { rowCount, columns });
        yield artifact('query_results', [part], idOf(turn, 'query_results'));
      },
    },
  ];
  yield { type: 'run.started' };
  yield acknowledge();
  try {
    yield* runSteps(steps);
  } catch (error) {
    const { code, ...rest } = DuolaneError.from(error).toJSON();
    if (code !== 'invalid' && code !== 'too_large') throw error;
    yield { type: 'run.finished', outcome: 'rejected', text: '', error: { code, ...rest } };
  } finally {
    await result?.[Symbol.asyncDispose]();
  }
};

const planKey = ({ messageId }: Turn): string =>
  `plan/${Buffer.from(messageId).toString('hex').slice(0, 400)}`;

/** The plan that an earlier run of this turn has made. */
async function keptPlan(turn: Turn, { storage }: AgentContext): Promise<SqlPlan | undefined> {
  const key = planKey(turn);
  for await (const [found, plan] of storage?.list(key) ?? [])
    if (found === key) return plan as SqlPlan;
  return undefined;
}

/** The plan that the model hands over; both lanes of its CLI pass by. `invalid` if it has none. */
async function* planQuery(
  turn: Turn,
  ctx: AgentContext,
): AsyncGenerator<AgentEvent, SqlPlan, undefined> {
  for await (const event of planner(turn, ctx)) {
    if (event.type === 'frame' || event.type === 'retry') yield event;
    if (event.type !== 'run.finished') continue;
    if (event.outcome !== 'completed') throw asError(event.error);
    const given = PlanOrNone.safeParse(event.output);
    if (!given.success) throw new DuolaneError('malformed', 'the model gave no plan');
    const { sql, ...plan } = given.data;
    if (sql === null) throw new DuolaneError('invalid', plan.explanation);
    return { ...plan, sql };
  }
  throw new DuolaneError('interrupted', 'the model said nothing');
}

const asError = (failure: DuolaneError | ReturnType<DuolaneError['toJSON']> | undefined): Error =>
  failure
    ? new DuolaneError(failure.code, failure.message)
    : new DuolaneError('internal', 'the model failed without an error');

/** Without a server (`main.ts`) the files are in the folder; `duolane serve --blobs` names another. */
const ownBlobs = (
  { task, owner }: Turn,
  signal: AbortSignal,
): NonNullable<AgentContext['blobs']> => ({
  async put(blob, bytes) {
    const about = { task, ...(owner !== undefined && { owner }), ...blob };
    const stored = await blobs.put(about, bytes, { signal });
    return { ...stored, url: `/blobs/${stored.id}` };
  },
});

/** Only the last of the four says that it is the last chunk: behind it nothing comes. */
function notLast(whole: ReturnType<typeof artifact>): AgentEvent {
  const { last: _, ...event } = whole;
  return event;
}

/** A UUID that comes out equal when the turn is run again, so that an artifact is replaced. */
function idOf({ messageId }: Turn, name: string): { readonly artifactId: string } {
  const hex = createHash('sha256').update(`${messageId}/${name}`).digest('hex');
  return {
    artifactId: `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`,
  };
}

const agent: Agent = withArtifactPlan(PLAN, Object.assign(answer, { resumable: true }));
export default agent;

const examples = [
  'revenue by city in 2025',
  'top 3 products by revenue in Lyon',
  'orders by month in 2024',
  'average order for business customers by category',
  'list 10 returned orders',
  'sql select category, count(*) as products, max(price) as highest_price from products group by category',
];

export const options: ServeOptions = {
  card: {
    name: 'Text to SQL',
    description:
      'Answers questions about a sample shop: a plan, a summary, the SQL and all rows as a Parquet file. Reads only.',
    skills: [
      {
        id: 'ask-the-shop',
        name: 'Ask the shop',
        description: 'Revenue, orders, units and average order by city, product, month and more.',
        tags: ['sql', 'duckdb', 'parquet'],
        examples,
      },
    ],
    inputModes: ['text/plain'],
    outputModes: ['text/plain', 'application/json', 'application/vnd.apache.parquet'],
  },
  form: { examples },
  blobs,
  resources: [warehouse],
};

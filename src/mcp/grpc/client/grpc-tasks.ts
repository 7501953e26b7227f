import { create } from '@bufbuild/protobuf';
import { DuolaneError } from '../../../errors.ts';
import { type GrpcCallOptions, type GrpcClient, methodOf } from '../../../grpc/index.ts';
import { sleep } from '../../../stream/abort.ts';
import { type KnownLimits, withinLimits } from '../../sources/request-timer.ts';
import { isEnded } from '../../sources/task-codec.ts';
import type { SourceTasks, TaskOptions, ToolTask } from '../../types.ts';
import { taskFrom } from '../codec/call-codec.ts';
import { fromGrpcError, mapErrors } from '../codec/grpc-errors.ts';
import { toText } from '../codec/json-text.ts';
import { Mcp, TaskRequestSchema, UpdateTaskRequestSchema } from '../gen/mcp/stream/v1/mcp_pb.ts';

/** How long a watcher goes on asking a server that cannot be reached: it may be restarting. */
const UNREACHABLE_MS = 60_000;
const RETRY_MS = 500;

type TaskMethod = 'tasks/get' | 'tasks/update' | 'tasks/cancel';

/** The tasks of a source over gRPC. The server sees one client for all callers. */
export function grpcTasks(
  client: GrpcClient,
  { timeoutMs }: KnownLimits,
  optionsOf: (method: TaskMethod, taskId: string, options: TaskOptions) => GrpcCallOptions,
): SourceTasks {
  const { method } = Mcp;
  const fail = (error: unknown): never => {
    throw fromGrpcError(error);
  };
  const limits = { timeoutMs, maxTotalMs: Infinity };
  /** The options of a request with one response, which has a time limit. */
  const request = <T>(
    what: TaskMethod,
    taskId: string,
    options: TaskOptions,
    run: (calling: GrpcCallOptions) => Promise<T>,
  ): Promise<T> =>
    withinLimits(limits, { what }, options.signal, (signal) =>
      run({ ...optionsOf(what, taskId, options), signal }),
    ).catch(fail);
  const one = (taskId: string) => create(TaskRequestSchema, { taskId });
  async function* states(
    taskId: string,
    options: TaskOptions,
  ): AsyncGenerator<ToolTask, void, undefined> {
    const calling = optionsOf('tasks/get', taskId, options);
    const stream = client.stream(methodOf(method.watchTask), { one: one(taskId) }, calling);
    for await (const { taskJson } of stream) yield taskFrom(taskJson);
  }
  return {
    checksOwner: false,
    async get(taskId, options = {}) {
      const state = await request('tasks/get', taskId, options, (calling) =>
        client.unary(methodOf(method.getTask), one(taskId), calling),
      );
      return taskFrom(state.taskJson);
    },
    async update(taskId, responses, options = {}) {
      const update = create(UpdateTaskRequestSchema, {
        taskId,
        responsesJson: toText(responses, 'the responses'),
      });
      await request('tasks/update', taskId, options, (calling) =>
        client.unary(methodOf(method.updateTask), update, calling),
      );
    },
    async cancel(taskId, options = {}) {
      await request('tasks/cancel', taskId, options, (calling) =>
        client.unary(methodOf(method.cancelTask), one(taskId), calling),
      );
    },
    watch: (taskId, options = {}) =>
      watch(() => mapErrors(() => states(taskId, options), fromGrpcError), options),
  };
}

/** Follows a task. A stream that breaks is opened again, for as long as the server may restart. */
async function* watch(
  open: () => AsyncIterable<ToolTask>,
  { signal }: TaskOptions,
): AsyncGenerator<ToolTask, void, undefined> {
  let shown: string | undefined;
  let failingSince: number | undefined;
  for (;;) {
    try {
      for await (const task of open()) {
        failingSince = undefined;
        const text = JSON.stringify(task);
        if (text !== shown) yield task;
        shown = text;
        if (isEnded(task)) return;
      }
    } catch (error) {
      const { code } = DuolaneError.from(error);
      failingSince ??= Date.now();
      if (signal?.aborted || (code !== 'network' && code !== 'overloaded')) throw error;
      if (Date.now() - failingSince > UNREACHABLE_MS) throw error;
    }
    await sleep(RETRY_MS, signal);
  }
}

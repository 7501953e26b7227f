import { create } from '@bufbuild/protobuf';
import { notFound } from '../../../errors.ts';
import { type CallContext, type GrpcRoute, methodOf } from '../../../grpc/index.ts';
import type { TaskOptions, ToolSource, ToolTask } from '../../types.ts';
import { parseObject, toText } from '../codec/json-text.ts';
import {
  Mcp,
  TaskAckSchema,
  type TaskRequest,
  type TaskState,
  TaskStateSchema,
} from '../gen/mcp/stream/v1/mcp_pb.ts';
import { callerOf, checkRoutingMetadata, callOwner } from '../routing-metadata.ts';
import { streamRoute, unaryRoute } from './error-routes.ts';

/**
 * Whether a call may have tasks. A source that does not check owners, such as a dialled server,
 * would show the tasks of one owner to all others.
 */
export const mayHaveTasks = ({ tasks }: ToolSource, call: CallContext): boolean =>
  tasks !== undefined && (tasks.checksOwner || callOwner(call) === undefined);

/** The methods for the tasks of a source; none if it has no tasks. */
export function taskRoutes(source: ToolSource): GrpcRoute[] {
  const { tasks } = source;
  if (!tasks) return [];
  const { method } = Mcp;
  const optionsOf = (call: CallContext, name: TaskMethod, taskId: string): TaskOptions => {
    checkRoutingMetadata(call, name, taskId);
    if (!mayHaveTasks(source, call)) throw notFound(`task "${taskId}" not found`);
    return { signal: call.signal, caller: callerOf(call), owner: callOwner(call) };
  };
  return [
    unaryRoute(methodOf(method.getTask), async ({ taskId }: TaskRequest, call) =>
      toState(await tasks.get(taskId, optionsOf(call, 'tasks/get', taskId))),
    ),
    unaryRoute(methodOf(method.updateTask), async ({ taskId, responsesJson }, call) => {
      const responses = parseObject(responsesJson, 'responses_json');
      await tasks.update(taskId, responses, optionsOf(call, 'tasks/update', taskId));
      return create(TaskAckSchema);
    }),
    unaryRoute(methodOf(method.cancelTask), async ({ taskId }: TaskRequest, call) => {
      await tasks.cancel(taskId, optionsOf(call, 'tasks/cancel', taskId));
      return create(TaskAckSchema);
    }),
    streamRoute(methodOf(method.watchTask), async function* ({ taskId }: TaskRequest, call) {
      const options = optionsOf(call, 'tasks/get', taskId);
      for await (const task of tasks.watch(taskId, options)) yield toState(task);
    }),
  ];
}

type TaskMethod = 'tasks/get' | 'tasks/update' | 'tasks/cancel';

const toState = (task: ToolTask): TaskState =>
  create(TaskStateSchema, { taskJson: toText(task, 'the task') });

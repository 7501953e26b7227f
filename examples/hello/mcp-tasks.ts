import { callToEnd, createRegistry, dialHttp, offerHttp, tool } from 'duolane/mcp';
import { withTasks } from 'duolane/mcp/tasks';
import { memoryLog } from 'duolane/task';

const work = tool('work', 'Takes long', {}, async () => 'done', { long: true });
const registry = createRegistry({ name: 'worker', tools: [work] });
await using log = memoryLog(); // sqliteLog() or postgresLog() keep the tasks of a process that was killed
await using tools = withTasks(registry, { log });
await using offered = await offerHttp(tools);

await using source = await dialHttp({ url: offered.url });
for await (const event of source.callTool({ id: '1', name: 'work', args: {} }, { task: true }))
  if (event.type === 'task') {
    const { taskId } = event.task; // store it: `get` finds the task from any process
    for await (const { status } of source.tasks!.watch(taskId)) console.log(status);
  }

const call = { id: '2', name: 'work', args: {} };
for await (const { type } of callToEnd(source, call)) console.log(type); // task, then result

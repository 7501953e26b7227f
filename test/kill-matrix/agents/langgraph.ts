import { langgraph, type LangGraph } from '../../../src/adapters/langgraph/langgraph-agent.ts';
import type { CheckpointSaver } from '../../../src/adapters/langgraph/task-checkpointer.ts';
import type { JsonObject } from '../../../src/json.ts';
import { peer } from '../../peers.ts';
import { checkKey } from '../cli-tools.ts';
import type { MatrixAgent } from '../matrix-agent.ts';

// The loop of a model and its tools in LangGraph, with checkpoints in the log.

interface Message {
  readonly tool_calls?: readonly unknown[];
}
interface State {
  readonly messages: readonly Message[];
}
interface Builder {
  addNode(name: string, node: unknown): Builder;
  addEdge(from: string, to: string): Builder;
  addConditionalEdges(from: string, choose: (state: State) => string): Builder;
  compile(): LangGraph;
}
interface Lib {
  readonly StateGraph: new (state: unknown) => Builder;
  readonly MessagesAnnotation: unknown;
  readonly MemorySaver: new () => CheckpointSaver;
  readonly interrupt: (value: unknown) => unknown;
  readonly START: string;
  readonly END: string;
}
interface ChatModel {
  bindTools(tools: readonly unknown[]): ChatModel;
  invoke(messages: unknown): Promise<Message>;
}
interface Running {
  readonly signal?: AbortSignal;
  readonly toolCall?: { readonly id?: string };
}

const peerLib = await peer('langgraph');
const load = async <T>(name: string): Promise<T> => (await peerLib.import(name)) as T;

const agent: MatrixAgent = {
  ...(peerLib.reason !== undefined && { missing: peerLib.reason }),
  build: async ({ url, tools }) => {
    const { StateGraph, MessagesAnnotation, MemorySaver, interrupt, START, END } =
      await load<Lib>('@langchain/langgraph');
    const { ToolNode } = await load<{ ToolNode: new (tools: readonly unknown[]) => unknown }>(
      '@langchain/langgraph/prebuilt',
    );
    const { tool } = await load<{ tool: (run: unknown, definition: JsonObject) => unknown }>(
      '@langchain/core/tools',
    );
    const { ChatOpenAI } = await load<{ ChatOpenAI: new (options: JsonObject) => ChatModel }>(
      '@langchain/openai',
    );
    const made = tools.map(({ name, description, schema, approval = false, run }) =>
      tool(
        async (args: JsonObject, { signal, toolCall }: Running) => {
          checkKey(args, toolCall?.id);
          if (approval && interrupt({ args }) !== true) throw new Error('it was not allowed');
          return run(args, signal);
        },
        { name, description, schema },
      ),
    );
    const model = new ChatOpenAI({
      model: 'scripted',
      apiKey: 'dummy',
      maxRetries: 0,
      configuration: { baseURL: `${url}/v1` },
    }).bindTools(made);
    const graph = new StateGraph(MessagesAnnotation)
      .addNode('agent', async ({ messages }: State) => ({
        messages: [await model.invoke(messages)],
      }))
      .addNode('tools', new ToolNode(made))
      .addEdge(START, 'agent')
      .addConditionalEdges('agent', ({ messages }) =>
        messages.at(-1)?.tool_calls?.length ? 'tools' : END,
      )
      .addEdge('tools', 'agent')
      .compile();
    return langgraph(graph, { checkpoints: new MemorySaver() });
  },
};

export default agent;

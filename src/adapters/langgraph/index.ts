export { langgraph, type LangGraph, type LangGraphOptions } from './langgraph-agent.ts';
export type { CheckpointSaver } from './task-checkpointer.ts';

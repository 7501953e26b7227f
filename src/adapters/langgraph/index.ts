export { langgraph, type LangGraph, type LangGraphOptions } from './langgraph-agent.ts';

// An app that uses a framework installs it. Duolane does not, so the modules have no types here.
declare module '@ai-sdk/openai-compatible';
declare module '@anthropic-ai/sdk';
declare module '@google/adk';
declare module '@langchain/core/tools';
declare module '@langchain/langgraph';
declare module '@langchain/langgraph/prebuilt';
declare module '@langchain/openai';
declare module '@mastra/core';
declare module '@mastra/core/agent';
declare module '@mastra/core/tools';
declare module '@openai/agents';
declare module 'ai';
declare module 'openai';

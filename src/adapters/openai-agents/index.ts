export { openaiAgents, type OpenAiRun, type OpenAiStream } from './openai-agent.ts';

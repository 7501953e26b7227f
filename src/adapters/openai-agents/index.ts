export {
  openaiAgents,
  type OpenAiAgent,
  type OpenAiDurable,
  type OpenAiRun,
  type OpenAiRunContext,
  type OpenAiRunner,
  type OpenAiStream,
} from './openai-agent.ts';

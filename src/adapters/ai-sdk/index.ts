export {
  aiSdk,
  type AiSdkAgent,
  type AiSdkAnswerPart,
  type AiSdkCall,
  type AiSdkCallPart,
  type AiSdkContent,
  type AiSdkDurable,
  type AiSdkDurableRun,
  type AiSdkMessage,
  type AiSdkResult,
  type AiSdkRun,
} from './ai-sdk-agent.ts';

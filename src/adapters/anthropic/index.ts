export {
  anthropic,
  type AnthropicClient,
  type AnthropicOptions,
  type WantedCall,
} from './anthropic-agent.ts';

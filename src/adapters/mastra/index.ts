export { mastra, type MastraAgent, type MastraOptions, type MastraStream } from './mastra-agent.ts';

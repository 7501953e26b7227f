export { googleAdk, type AdkOptions, type AdkRunner } from './google-adk-agent.ts';

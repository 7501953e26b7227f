// Starts the worker from its TypeScript source, for tests and benchmarks; the package ships sqlite-worker.js.
import { register } from 'tsx/esm/api';

register();
await import('./sqlite-worker.ts');

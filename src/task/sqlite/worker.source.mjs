// Starts the worker from its TypeScript source, for tests and benchmarks; the package ships worker.js.
import { register } from 'tsx/esm/api';

register();
await import('./worker.ts');

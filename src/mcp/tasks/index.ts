export { type TaskSource, withTasks, type WithTasksOptions } from './with-tasks.ts';

export {
  type CallFault,
  SimulatedStore as Database,
  type StoreSharing as Sharing,
  StoreConnection as Connection,
} from '../../../src/testing/tasks/simulated-store.ts';

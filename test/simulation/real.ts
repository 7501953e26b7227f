export * from '../../src/testing/kernel/real-clock.ts';

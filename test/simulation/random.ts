export * from '../../src/testing/kernel/random.ts';

mod causes;
mod odds;
mod random;
mod windows;
mod world;
